/* keel/link_module.h - what libkeel asks of a module that carries values between processes.
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

/* One operation. Memory is the host's, and stays as it is until the operation has ended. */
typedef struct keel_link_call {
  uint32_t struct_size; /* sizeof(keel_link_call) as libkeel knew it */
  uint32_t kind;
  /* KD_REDUCE_* of kd/collective.h, for kinds that reduce; of bools, sum and max are whether any is
   * true, product and min whether all are */
  uint32_t reduction;
  uint32_t dtype; /* kd_dtype; kinds that do not reduce move bytes */
  /* Elements of one rank's part, for kinds that reduce; bytes of it for the others. */
  uint64_t count;
  void *comm; /* of split; NULL: all ranks */
  const void *send;
  void *receive; /* of a broadcast: what is sent, too */
  uint32_t
      peer; /* a rank of comm: the root, the target of a send, or the source */
  uint32_t tag; /* of a send and of its receive, up to 32767 */
} keel_link_call;

/* What a module finds when it opens. */
typedef struct keel_link_world {
  uint32_t struct_size;
  uint32_t rank, size;             /* of all ranks */
  uint32_t local_rank, local_size; /* of those of this machine */
  char library[128];               /* "Open MPI v4.1.4", in words */
  /* The first rank of this machine, among all; older modules leave 0. */
  uint32_t machine;
} keel_link_world;

/* All functions are there. Those that return int return 0, or an error that `message` has words
 * for. */
typedef struct keel_link_table {
  uint32_t struct_size; /* sizeof(keel_link_table) as the module knew it */
  uint32_t version;     /* KEEL_LINK_VERSION */

  /* Joins the other ranks. An application that has initialised MPI itself is respected: then close
   * does not finalise it. */
  int (*open)(keel_link_world *out_world);
  /* Leaves them, with no operation under way. */
  void (*close)(void);

  /* A communicator of the ranks that give one color, in the order of key. All ranks call. */
  int (*split)(uint32_t color, uint32_t key, void **out_comm);
  void (*release)(void *comm);

  /* Begins an operation, and asks whether it has ended: then the request is gone. Neither waits. */
  int (*start)(const keel_link_call *call, void **out_request);
  int (*test)(void *request, int *out_ended);

  /* Short notes beside the operations, for when something has gone wrong: sent without waiting,
   * and heard by whoever asks. Notes have a size of KEEL_LINK_NOTE. */
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
