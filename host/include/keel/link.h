/* keel/link.h - ranks: processes on one machine or many that run the same program and exchange
 * values.
 *
 * Each process opens a link and gets a handle of its rank. The program's exchanges (AllReduce and
 * so on: keel/op.h) take the handle as their first input, like that of a group (keel/group.h). MPI
 * carries the values, through a module (keel/link_module.h) that is opened at run time. One thread
 * of the link makes all MPI calls, including the one that initialises MPI.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_LINK_H
#define KEEL_LINK_H

#include <keel/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct keel_link keel_link;

typedef struct keel_link_params {
  uint64_t struct_size; /* sizeof(keel_link_params) */
  /* The module: a path, or a name such as "openmpi", which stands for keel_openmpi.so in the
   * folder keel-link beside libkeel. NULL: the module that KEEL_LINK_MODULE names, else the one for
   * the launcher of this process: keel_openmpi.so for OMPI_COMM_WORLD_SIZE, and for PMIX_RANK with
   * SLURM_STEP_NUM_TASKS of 2 or more; keel_mpich.so for PMI_SIZE and MPI_LOCALNRANKS. If that module
   * was not built, keel_mpi.so: it opens the library of MPI 5's standard ABI, libmpi_abi.so.1, or the
   * file that KEEL_MPI_LIBRARY names. */
  const char *module;
  /* How long an exchange may wait for other ranks, in nanoseconds; 0: five minutes. Also the limit
   * of keel_link_open, but at least ten seconds there. */
  uint64_t timeout;
} keel_link_params;

/* The number of ranks that an MPI launcher (mpirun, mpiexec, srun) has started, including this
 * process, read from the variables that it sets; 0: there is no launcher. Opens nothing. */
KEEL_API uint32_t keel_link_launched(void);

/* Joins the other ranks: every rank calls it, and it waits for them. A process has one link at a
 * time.
 *
 * params  NULL: all defaults
 * Returns KD_OK, KD_FAILED_PRECONDITION (no launcher has started this process; the launcher's
 * number of ranks is not MPI's, for example if mpirun and the module belong to different MPI
 * implementations; MPI was initialised for one thread), KD_NOT_FOUND (no such module), KD_ALREADY_EXISTS,
 * KD_INVALID_ARGUMENT, KD_UNAVAILABLE (with MPI's message), KD_OUT_OF_MEMORY, KD_DEADLINE_EXCEEDED
 * (a rank is missing; this process can then not open a link again). */
KEEL_API keel_status keel_link_open(keel_context *context,
                                    const keel_link_params *params,
                                    KD_OWNED keel_link **out_link);

/* Leaves the other ranks once all exchanges are done. Every rank calls it, and it waits for them
 * without a limit. From then on, exchanges through handles that are not released yet fail. NULL does
 * nothing. After the link has failed, it returns at once and leaves MPI unfinalised: then end the
 * process by keel_link_abort, as after a plain exit the launcher reports an error.
 *
 * A process that exits with its link open ends all ranks, as keel_link_abort does. */
KEEL_API void keel_link_close(keel_link *link);

typedef struct keel_link_facts {
  uint32_t rank, size;             /* among all ranks */
  uint32_t local_rank, local_size; /* among those of this machine */
  const char *library;             /* "Open MPI v4.1.4" */
  const char *module; /* its file. Both are valid until keel_link_close */
  uint64_t exchanges, bytes; /* done so far; bytes of this rank's values */
  uint64_t waited;           /* nanoseconds in which exchanges were under way */
  uint64_t direct;           /* exchanges from device to device */
  /* exchanges that are direct within each machine, and go by MPI between machines */
  uint64_t levels;
  uint64_t pieces; /* exchanges through host memory, in chunks */
} keel_link_facts;

KEEL_API void keel_link_look(keel_link *link, keel_link_facts *out_facts);

/* A handle of this rank for a program's exchanges: a resource. The n-th exchange of a rank matches
 * the n-th exchange of every other rank, and their types must be equal; keel_link_check compares
 * them as far as programs declare types. Outputs are in the memory of `device`; if it is NULL, in the
 * host's.
 *
 * If a rank cannot contribute because it failed earlier, the exchange fails on all ranks, and with it
 * the link; the message names the rank. A run that fails or is cancelled before an exchange has the
 * same effect. (A run that is refused for its inputs, with KD_INVALID_ARGUMENT, has
 * not left out any.) */
KEEL_API keel_status keel_link_member(keel_link *link, keel_device *device,
                                      KD_OWNED keel_tensor **out_member);

/* Compares the exchanges of all ranks' programs in their order: exchanges that differ would wait for
 * each other without end. Every rank calls it.
 * Returns KD_OK; KD_INVALID_ARGUMENT (the message names the first exchange that differs, and the
 * ranks); or the link's failure. */
KEEL_API keel_status keel_link_check(keel_link *link,
                                     const keel_program *program);

/* Gathers `size` bytes of each rank, in rank order. Every rank calls it, between exchanges, and it
 * waits for the other ranks.
 * Returns KD_OK, or the link's failure. */
KEEL_API keel_status keel_link_gather(keel_link *link, const void *bytes,
                                      uint64_t size, void *out_bytes);

/* Ends all ranks' processes with a status for the launcher. First rank 0 prints the text and the
 * rank that gave it on its standard error: at most 1,000 bytes of another rank's text, and one text
 * if several ranks fail at once. If this rank's link is stuck, for example in a device's call, this
 * process prints the text after ten seconds and ends.
 *
 * text  NULL: nothing is printed
 * Does not return. */
KEEL_API void keel_link_abort(keel_link *link, int status, const char *text);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_LINK_H */
