/* keel/link_module.h - the interface of a module that carries values between processes.
 *
 * Keel brings modules for MPI (keel_openmpi.so, keel_mpich.so, keel_mpi.so); another transport is another
 * library that exports KEEL_LINK_MODULE_SYMBOL. libkeel itself links no MPI. Operations are those
 * of MPI's of the same name (MPI 3.1, chapters 3 and 5). One thread makes all calls, from open to
 * close. SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_LINK_MODULE_H
#define KEEL_LINK_MODULE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of keel_link_call. */
#define KEEL_LINK_ALL_REDUCE     0u
#define KEEL_LINK_ALL_GATHER     1u
#define KEEL_LINK_REDUCE_SCATTER 2u
#define KEEL_LINK_ALL_TO_ALL     3u
#define KEEL_LINK_BROADCAST      4u
#define KEEL_LINK_SEND           5u
#define KEEL_LINK_RECEIVE        6u
#define KEEL_LINK_BARRIER        7u

/* One operation. All memory is host memory, and stays valid until the operation has ended. */
typedef struct keel_link_call {
  uint32_t struct_size; /* sizeof(keel_link_call) as libkeel knew it */
  uint32_t kind;
  /* KD_REDUCE_* of kd/collective.h, for kinds that reduce. For bools, sum and max are a logical or,
   * product and min a logical and. */
  uint32_t reduction;
  uint32_t dtype; /* kd_dtype; kinds that do not reduce move bytes */
  /* Elements of one rank's block, for kinds that reduce; bytes of it for the others. */
  uint64_t count;
  void *comm; /* of split; NULL: all ranks */
  const void *send;
  void *receive; /* of a broadcast: also the root's data */
  uint32_t
      peer; /* a rank of comm: the root, the target of a send, or the source */
  uint32_t tag; /* of a send and of its receive, up to 32767 */
} keel_link_call;

/* Facts that a module reports when it opens. */
typedef struct keel_link_world {
  uint32_t struct_size;
  uint32_t rank, size;             /* of all ranks */
  uint32_t local_rank, local_size; /* of those of this machine */
  char library[128];               /* "Open MPI v4.1.4" */
  /* The first rank of this machine, among all; older modules leave 0. */
  uint32_t machine;
} keel_link_world;

/* All functions are set. Those that return int return 0, or an error code for `message`. */
typedef struct keel_link_table {
  uint32_t struct_size; /* sizeof(keel_link_table) as the module knew it */
  uint32_t version;     /* KEEL_LINK_VERSION */

  /* Joins the other ranks. If the application has initialised MPI itself, close does not finalise
   * it. */
  int (*open)(keel_link_world *out_world);
  /* Leaves them, with no operation under way. */
  void (*close)(void);

  /* Makes a communicator of the ranks with the same color, in the order of key. All ranks call
   * it. */
  int (*split)(uint32_t color, uint32_t key, void **out_comm);
  void (*release)(void *comm);

  /* `start` begins an operation. `test` sets whether it has ended, and then frees the request.
   * Neither waits. */
  int (*start)(const keel_link_call *call, void **out_request);
  int (*test)(void *request, int *out_ended);

  /* Notes: messages of KEEL_LINK_NOTE bytes outside the operations, for failures. `tell` sends one
   * without waiting; `hear` receives one if any has arrived. */
  int (*tell)(uint32_t rank, const void *note);
  int (*hear)(void *out_note, int *out_heard);

  /* Ends all ranks' processes. Does not return. */
  void (*abort)(int status);

  const char *(*message)(int error);
} keel_link_table;

#define KEEL_LINK_VERSION       1u
#define KEEL_LINK_NOTE          1024u
#define KEEL_LINK_MODULE_SYMBOL "keel_link_module"

/* The symbol: returns the module's table, which lives as long as the library is loaded. */
typedef const keel_link_table *(*keel_link_module_function)(void);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_LINK_MODULE_H */
