/* mpi_abi_standin.c - stands in for a library of MPI's standard ABI, of one rank. Its numbers are
 * written from the standard, not from what is tested, and a handle or constant that is none of
 * them ends the process.
 *
 * KEEL_STANDIN_ABI is the major version that it says it has; WITHOUT_PROBE leaves a function out. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORLD      0x101
#define NO_INFO    0x130
#define RETURN     0x143
#define NO_REQUEST 0x180
#define MADE       0x10000 /* handles of what is made begin here */

#define FUNNELED 1024
#define SHARED   221

typedef uintptr_t handle; /* is as a pointer, in a call */

typedef struct status {
  int source, tag, error, own[5];
} status;

typedef void (*reduction)(void *in, void *out, int *count, handle *type);

static int begun, ended, abi = 1;
static handle next = MADE;

static void need(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "the stand-in for MPI's library: %s\n", what);
  exit(9);
}

static handle new_handle(void) {
  return next++;
}

/* NOLINTBEGIN(readability-identifier-naming,readability-non-const-parameter): MPI's */

/* ---- types -------------------------------------------------------------------------------- */

static const struct {
  handle type;
  size_t size;
} types[] = {{0x210, 4}, {0x212, 8}, {0x214, 8}, {0x216, 16}, {0x240, 1},
             {0x241, 1}, {0x247, 1}, {0x248, 2}, {0x249, 2},  {0x250, 4},
             {0x251, 4}, {0x258, 8}, {0x259, 8}};

static size_t size_of(handle type) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].type == type) return types[i].size;
  need(0, "no such type");
  return 0;
}

static void copy(const void *from, void *to, int count, handle type) {
  memmove(to, from, (size_t)count * size_of(type));
}

int MPI_Type_contiguous(int count, handle type, handle *made) {
  (void)count;
  (void)type;
  *made = new_handle();
  return 0;
}

int MPI_Type_create_struct(int count, const int *counts, const intptr_t *places,
                           const handle *list, handle *made) {
  (void)count;
  (void)counts;
  (void)places;
  (void)list;
  *made = new_handle();
  return 0;
}

int MPI_Type_commit(handle *type) {
  return *type < MADE;
}

int MPI_Type_free(handle *type) {
  *type = 0x200;
  return 0;
}

/* ---- beginning and end --------------------------------------------------------------------- */

int MPI_Abi_get_version(int *major, int *minor) {
  const char *said = getenv("KEEL_STANDIN_ABI");
  *major = said ? (int)strtol(said, NULL, 10) : abi;
  *minor = 0;
  return 0;
}

int MPI_Initialized(int *flag) {
  *flag = begun;
  return 0;
}

int MPI_Finalized(int *flag) {
  *flag = ended;
  return 0;
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *given) {
  need(!argc && !argv && wanted == FUNNELED && !begun, "MPI_Init_thread");
  begun = 1;
  *given = wanted;
  return 0;
}

int MPI_Query_thread(int *given) {
  *given = FUNNELED;
  return 0;
}

int MPI_Finalize(void) {
  need(begun && !ended, "MPI_Finalize");
  ended = 1;
  return 0;
}

int MPI_Abort(handle comm, int code) {
  (void)comm;
  _exit(code);
}

int MPI_Get_library_version(char *text, int *size) {
  memset(text, 0, 8192); /* MPI_MAX_LIBRARY_VERSION_STRING is room for it */
  *size = snprintf(text, 8192, "Stand-in 1.0\nsecond line");
  return 0;
}

int MPI_Error_string(int error, char *text, int *size) {
  memset(text, 0, 512); /* MPI_MAX_ERROR_STRING, too */
  *size = snprintf(text, 512, "error %d", error);
  return 0;
}

/* ---- communicators ------------------------------------------------------------------------ */

static void need_comm(handle comm) {
  need(begun && !ended && (comm == WORLD || comm >= MADE), "no such comm");
}

int MPI_Comm_rank(handle comm, int *rank) {
  need_comm(comm);
  *rank = 0;
  return 0;
}

int MPI_Comm_size(handle comm, int *size) {
  need_comm(comm);
  *size = 1;
  return 0;
}

int MPI_Comm_dup(handle comm, handle *made) {
  need_comm(comm);
  *made = new_handle();
  return 0;
}

int MPI_Comm_split(handle comm, int color, int key, handle *made) {
  (void)color;
  (void)key;
  return MPI_Comm_dup(comm, made);
}

int MPI_Comm_split_type(handle comm, int kind, int key, handle info,
                        handle *made) {
  (void)key;
  need(kind == SHARED && info == NO_INFO, "MPI_Comm_split_type");
  return MPI_Comm_dup(comm, made);
}

int MPI_Comm_set_errhandler(handle comm, handle handler) {
  need_comm(comm);
  need(handler == RETURN, "errors are to return");
  return 0;
}

int MPI_Comm_free(handle *comm) {
  need_comm(*comm);
  *comm = 0x100;
  return 0;
}

/* ---- operations: each has ended when it begins ------------------------------------------------ */

static reduction made_ops[8];
static size_t op_count;

int MPI_Op_create(reduction function, int commutes, handle *made) {
  need(commutes && op_count < 8, "MPI_Op_create");
  made_ops[op_count++] = function;
  *made = new_handle();
  return 0;
}

int MPI_Op_free(handle *op) {
  need(*op >= MADE, "MPI_Op_free");
  *op = 0x20;
  return 0;
}

static int begin(handle comm, handle *request) {
  need_comm(comm);
  *request = new_handle();
  return 0;
}

int MPI_Test(handle *request, int *flag, status *out) {
  need(!out && (*request == NO_REQUEST || *request >= MADE), "MPI_Test");
  *request = NO_REQUEST;
  *flag = 1;
  return 0;
}

int MPI_Iallreduce(const void *in, void *out, int count, handle type, handle op,
                   handle comm, handle *request) {
  need((op >= 0x21 && op <= 0x24) || op >= MADE, "no such op");
  need(*request == NO_REQUEST, "mpi.c has null requests before it begins them");
  copy(in, out, count, type);
  return begin(comm, request);
}

int MPI_Ireduce_scatter_block(const void *in, void *out, int count, handle type,
                              handle op, handle comm, handle *request) {
  return MPI_Iallreduce(in, out, count, type, op, comm, request);
}

int MPI_Iallgather(const void *in, int count, handle type, void *out,
                   int out_count, handle out_type, handle comm,
                   handle *request) {
  need(count == out_count && type == out_type, "MPI_Iallgather");
  copy(in, out, count, type);
  return begin(comm, request);
}

int MPI_Ialltoall(const void *in, int count, handle type, void *out,
                  int out_count, handle out_type, handle comm,
                  handle *request) {
  return MPI_Iallgather(in, count, type, out, out_count, out_type, comm,
                        request);
}

int MPI_Ibcast(void *data, int count, handle type, int root, handle comm,
               handle *request) {
  need(data && count >= 0 && size_of(type) && !root, "MPI_Ibcast");
  return begin(comm, request);
}

int MPI_Bcast(void *data, int count, handle type, int root, handle comm) {
  need_comm(comm);
  need(data && count >= 0 && size_of(type) && !root, "MPI_Bcast");
  return 0;
}

int MPI_Ibarrier(handle comm, handle *request) {
  return begin(comm, request);
}

/* ---- messages: one rank has nobody to write to, but itself --------------------------------------- */

int MPI_Isend(const void *data, int count, handle type, int to, int tag,
              handle comm, handle *request) {
  (void)data;
  (void)count;
  (void)tag;
  need(size_of(type) && !to, "MPI_Isend");
  return begin(comm, request);
}

int MPI_Irecv(void *data, int count, handle type, int from, int tag,
              handle comm, handle *request) {
  (void)data;
  (void)count;
  (void)tag;
  need(size_of(type) && !from, "MPI_Irecv");
  return begin(comm, request);
}

int MPI_Recv(void *data, int count, handle type, int from, int tag, handle comm,
             status *out) {
  (void)data;
  (void)count;
  (void)type;
  (void)from;
  (void)tag;
  (void)comm;
  (void)out;
  return 1;
}

int MPI_Get_count(const status *from, handle type, int *out_count) {
  need(from && size_of(type), "MPI_Get_count");
  *out_count = 0;
  return 1;
}

#ifndef WITHOUT_PROBE
int MPI_Iprobe(int from, int tag, handle comm, int *flag, status *out) {
  need_comm(comm);
  need(from == -1 && !tag, "MPI_Iprobe");
  *flag = 0;
  memset(out, 0, sizeof *out); /* which the caller's status is as large as */
  return 0;
}
#endif
/* NOLINTEND(readability-identifier-naming,readability-non-const-parameter) */
