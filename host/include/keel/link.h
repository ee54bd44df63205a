/* keel/link.h - ranks: processes, of one machine or many, that run the same program and exchange
 * values.
 *
 * Each process opens a link and gets a handle of it, which its program's exchanges (AllReduce and
 * so on: keel/op.h) take as their first input, as they take a group's (keel/group.h). MPI carries
 * the values: a module for it (keel/link_module.h) is opened at run time, and libkeel links none.
 * One thread of the link's own makes all calls of MPI, also the one that initialises it.
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
   * folder keel-link beside libkeel. NULL: what KEEL_LINK_MODULE names, or else the module of the
   * launcher that has started this process: keel_openmpi.so for OMPI_COMM_WORLD_SIZE, and for
   * PMIX_RANK with SLURM_STEP_NUM_TASKS of 2 or more; keel_mpich.so for PMI_SIZE. Where that is
   * not there, keel_mpi.so: it opens the library of MPI 5's standard ABI, libmpi_abi.so.1, or the
   * file that KEEL_MPI_LIBRARY names. */
  const char *module;
  /* How long an exchange may wait for other ranks, in nanoseconds; 0: five minutes. Joining them
   * has as long, and ten seconds at least. */
  uint64_t timeout;
} keel_link_params;

/* How many ranks a launcher of MPI (mpirun, mpiexec, srun) says that it has started, this process
 * among them, by the variables that it sets; 0: none has. Opens nothing. */
KEEL_API uint32_t keel_link_launched(void);

/* Joins the other ranks; all call it, and it waits for them. A process has one link at a time.
 *
 * params  NULL: all defaults
 * Returns KD_OK, KD_FAILED_PRECONDITION (no launcher has started this process; the launcher's
 * number of ranks is not MPI's, as where mpirun is of another MPI than the module; MPI was
 * initialised for one thread), KD_NOT_FOUND (no such module), KD_ALREADY_EXISTS,
 * KD_INVALID_ARGUMENT, KD_UNAVAILABLE (what MPI says), KD_OUT_OF_MEMORY, KD_DEADLINE_EXCEEDED (the
 * others have not all come: then this process gets no link any more). */
KEEL_API keel_status keel_link_open(keel_context *context,
                                    const keel_link_params *params,
                                    KD_OWNED keel_link **out_link);

/* Leaves the other ranks, when all values of exchanges are known; all ranks call it, and it waits
 * for them, however long they compute. Exchanges of members that are not released yet fail from
 * then on. NULL does nothing. After a failure of the link it does not wait for other ranks, and MPI
 * is not finalised: the process ends by keel_link_abort, or its launcher complains.
 *
 * A process that exits with its link open ends all ranks, as keel_link_abort does. */
KEEL_API void keel_link_close(keel_link *link);

typedef struct keel_link_facts {
  uint32_t rank, size;             /* among all ranks */
  uint32_t local_rank, local_size; /* among those of this machine */
  const char *library;             /* "Open MPI v4.1.4" */
  const char *module;              /* the file; both live as long as the link */
  uint64_t exchanges, bytes; /* done so far; of this rank's values in them */
  uint64_t waited;           /* nanoseconds in which exchanges were under way */
  /* Of the exchanges: those that went from device to device; and those that did so on each
   * machine, and by MPI between them; and long ones that went through host memory in pieces. */
  uint64_t direct, levels, pieces;
} keel_link_facts;

KEEL_API void keel_link_look(keel_link *link, keel_link_facts *out_facts);

/* A handle of this rank, for a program's exchanges: a resource. The n-th exchange of each rank is
 * one with the n-th of all others; their types are the same on all ranks, which keel_link_check
 * compares as far as programs say them. Outputs come into the device's memory (NULL: the host's).
 *
 * What one rank cannot give, since it has failed before, fails with it on all ranks, and the link has
 * failed; the other ranks' message names the rank. So does a run that leaves an exchange out, since
 * it has failed or was cancelled. (A run that is refused for its inputs, with KD_INVALID_ARGUMENT,
 * has left nothing out.) */
KEEL_API keel_status keel_link_member(keel_link *link, keel_device *device,
                                      KD_OWNED keel_tensor **out_member);

/* Compares the exchanges of all ranks' programs, in their order, which otherwise would wait for
 * each other for ever. All ranks call it.
 * Returns KD_OK; KD_INVALID_ARGUMENT: the first that differs, and of which ranks; or the link's
 * failure. */
KEEL_API keel_status keel_link_check(keel_link *link,
                                     const keel_program *program);

/* Gives `size` bytes, and gets those of all ranks, in rank order. All ranks call it, between
 * exchanges, and it waits for them.
 * Returns KD_OK, or the link's failure. */
KEEL_API keel_status keel_link_gather(keel_link *link, const void *bytes,
                                      uint64_t size, void *out_bytes);

/* Ends all ranks' processes with a status for the launcher, after rank 0 has printed the text on
 * its standard error, with the rank that gives it: of several ranks that fail at once, one is
 * printed. Of another rank's text, rank 0 prints up to 1,000 bytes. Where this rank's link is stuck,
 * in a device's call for example, this process prints it after ten seconds, and ends.
 *
 * text  NULL: nothing is printed
 * Does not return. */
KEEL_API void keel_link_abort(keel_link *link, int status, const char *text);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_LINK_H */
