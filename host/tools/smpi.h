/* smpi.h - what ranks compute and exchange, as time-independent traces that SimGrid replays:
 * `smpirun -replay` (A. Degomme et al., Simulating MPI applications: the SMPI approach, 2017). */
#ifndef KEEL_SMPI_H
#define KEEL_SMPI_H

#include "tool.h"

typedef struct smpi_traces {
  const char *folder;
  uint32_t ranks;
  double bytes_as; /* see keel_program_phases */
} smpi_traces;

/* Writes the traces of ranks `from` to `to`, not included, which run equal programs; with rank 0's,
 * the folder and the file `ranks` in it, which lists all traces. Returns 0, or 1 after an error was
 * printed. */
int smpi_write(const smpi_traces *traces, const keel_program *program,
               uint32_t from, uint32_t to);

#endif /* KEEL_SMPI_H */
