/* mpi.c - keel/link_module.h by MPI 3.1. Built once for each MPI that is found, and once for MPI's
 * standard ABI (KEEL_MPI_ABI); nothing in it is of one of them.
 *
 * All operations are MPI's non-blocking ones: a waiting thread can check the time, and receive
 * notes, meanwhile. */
#include <kd/kd.h>
#include <keel/link_module.h>

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/float.h"

#ifdef KEEL_MPI_ABI
#include "abi.h"
#else
#include <mpi.h>
/* MPI is linked. */
static const char *abi_open(void) {
  return NULL;
}
#endif

/* MPI has ints for counts: longer pieces are of a type of so many bytes. */
#define BLOCK (1 << 20)

/* Errors of our own, beside MPI's, which are positive. */
#define TOO_FEW_THREADS (-1)
#define NO_TYPE         (-2)
#define NO_MEMORY       (-3)
#define FINALIZED       (-4)
#define NO_LIBRARY      (-5)
#define TOO_SHORT       (-6)
#define LEFT_OPEN       (-7)

static MPI_Comm world, notes;
static MPI_Op half_ops[2][4]; /* of f16 and of bf16, by KD_REDUCE_* */
static int is_ours;           /* whether close finalises MPI */
static const char *problem;   /* why there is NO_LIBRARY */

static int is_left; /* a link was opened and, since it has failed, not closed */

/* ---- reductions of the types that MPI has not -------------------------------------- */

static double mpi_get(kd_dtype dtype, const uint16_t *from) {
  double number = 0;
  uint64_t bits = 0;
  keel_float_decode(dtype, from, &number, &bits);
  return number;
}

/* The least or the most; the same in any order: NaN if one is, and zeros by their sign. */
static double extreme(double a, double b, int reduction) {
  if (isnan(a) || isnan(b)) return (double)NAN;
  bool smaller = a < b || (a == b && signbit(a));
  return (reduction == KD_REDUCE_MIN) == smaller ? a : b;
}

static void reduce_half(const void *in, void *out, int count, kd_dtype dtype,
                        int reduction) {
  const uint16_t *from = in;
  uint16_t *to = out;
  for (int i = 0; i < count; i++) {
    double a = mpi_get(dtype, &from[i]), b = mpi_get(dtype, &to[i]);
    double both = reduction == KD_REDUCE_SUM       ? a + b
                  : reduction == KD_REDUCE_PRODUCT ? a * b
                                                   : extreme(a, b, reduction);
    keel_float_encode(dtype, both, &to[i]);
  }
}

#define HALF_OP(name, dtype, reduction)                                   \
  static void name(void *in, void *out, int *count, MPI_Datatype *type) { \
    (void)type;                                                           \
    reduce_half(in, out, *count, dtype, reduction);                       \
  }
/* NOLINTBEGIN(readability-non-const-parameter): MPI gives the type */
HALF_OP(f16_sum, KD_F16, KD_REDUCE_SUM)
HALF_OP(f16_product, KD_F16, KD_REDUCE_PRODUCT)
HALF_OP(f16_min, KD_F16, KD_REDUCE_MIN)
HALF_OP(f16_max, KD_F16, KD_REDUCE_MAX)
HALF_OP(bf16_sum, KD_BF16, KD_REDUCE_SUM)
HALF_OP(bf16_product, KD_BF16, KD_REDUCE_PRODUCT)
HALF_OP(bf16_min, KD_BF16, KD_REDUCE_MIN)
HALF_OP(bf16_max, KD_BF16, KD_REDUCE_MAX)
/* NOLINTEND(readability-non-const-parameter) */

static int make_ops(void) {
  MPI_User_function *const functions[2][4] = {
      {f16_sum, f16_product, f16_min, f16_max},
      {bf16_sum, bf16_product, bf16_min, bf16_max}};
  int error = MPI_SUCCESS;
  for (int type = 0; type < 2; type++)
    for (int i = 0; i < 4 && error == MPI_SUCCESS; i++)
      error = MPI_Op_create(functions[type][i], 1, &half_ops[type][i]);
  return error;
}

/* MPI_DATATYPE_NULL: there is none that can be reduced so. */
static MPI_Datatype number_type(uint32_t dtype) {
  switch (dtype) {
    case KD_F32:
      return MPI_FLOAT;
    case KD_F64:
      return MPI_DOUBLE;
    case KD_F16:
    case KD_BF16:
    case KD_U16:
      return MPI_UINT16_T;
    case KD_I8:
      return MPI_INT8_T;
    case KD_I16:
      return MPI_INT16_T;
    case KD_I32:
      return MPI_INT32_T;
    case KD_I64:
      return MPI_INT64_T;
    case KD_U8:
    case KD_BOOL:
      return MPI_UINT8_T;
    case KD_U32:
      return MPI_UINT32_T;
    case KD_U64:
      return MPI_UINT64_T;
    case KD_C64:
      return MPI_C_FLOAT_COMPLEX;
    case KD_C128:
      return MPI_C_DOUBLE_COMPLEX;
    default:
      return MPI_DATATYPE_NULL;
  }
}

/* Of bools: whether any is true, or all. */
static MPI_Op number_op(uint32_t dtype, uint32_t reduction) {
  if (dtype == KD_F16 || dtype == KD_BF16)
    return half_ops[dtype == KD_BF16][reduction];
  if (dtype == KD_BOOL)
    return reduction == KD_REDUCE_SUM || reduction == KD_REDUCE_MAX ? MPI_MAX
                                                                    : MPI_MIN;
  return reduction == KD_REDUCE_SUM       ? MPI_SUM
         : reduction == KD_REDUCE_PRODUCT ? MPI_PROD
         : reduction == KD_REDUCE_MIN     ? MPI_MIN
                                          : MPI_MAX;
}

/* Callers of `test` wait for them, in other calls:
 * NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker) */

/* ---- requests ------------------------------------------------------------------------ */

/* A request: one operation of MPI, or one for each chunk. */
typedef struct request {
  int count;
  MPI_Datatype bytes; /* made for it; MPI_DATATYPE_NULL: none */
  /* of a message that is received: so many of the type; -1: it is none */
  int expects;
  MPI_Datatype type;
  MPI_Request parts[];
} request;

static request *new_request(int count) {
  request *made = malloc(sizeof *made + (size_t)count * sizeof *made->parts);
  if (!made) return NULL;
  *made = (request){.count = count, .bytes = MPI_DATATYPE_NULL, .expects = -1};
  for (int i = 0; i < count; i++)
    made->parts[i] = MPI_REQUEST_NULL;
  return made;
}

static void drop_request(request *made) {
  if (made->bytes != MPI_DATATYPE_NULL) MPI_Type_free(&made->bytes);
  free(made);
}

/* So many bytes, as `*count` of a type. */
static int type_of_bytes(uint64_t bytes, request *made, MPI_Datatype *type,
                         int *count) {
  *type = MPI_BYTE;
  *count = (int)bytes;
  if (bytes <= INT_MAX) return MPI_SUCCESS;
  MPI_Datatype block;
  int error = MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
  if (error != MPI_SUCCESS) return error;
  const int counts[] = {(int)(bytes / BLOCK), (int)(bytes % BLOCK)};
  const MPI_Aint places[] = {0, (MPI_Aint)(bytes - bytes % BLOCK)};
  MPI_Datatype types[] = {block, MPI_BYTE};
  error = MPI_Type_create_struct(2, counts, places, types, &made->bytes);
  MPI_Type_free(&block);
  if (error == MPI_SUCCESS) error = MPI_Type_commit(&made->bytes);
  *type = made->bytes;
  *count = 1;
  return error;
}

/* ---- operations ------------------------------------------------------------------------ */

static MPI_Comm comm_of(const keel_link_call *call) {
  return call->comm ? *(MPI_Comm *)call->comm : world;
}

/* Pieces of up to INT_MAX elements. */
static int mpi_all_reduce(const keel_link_call *call, request *made) {
  MPI_Datatype type = number_type(call->dtype);
  MPI_Op op = number_op(call->dtype, call->reduction);
  uint64_t each = kd_dtype_size(call->dtype), from = 0;
  int error = MPI_SUCCESS;
  for (int i = 0; i < made->count && error == MPI_SUCCESS; i++) {
    uint64_t left = call->count - from;
    int piece = left > INT_MAX ? INT_MAX : (int)left;
    error = MPI_Iallreduce((const char *)call->send + from * each,
                           (char *)call->receive + from * each, piece, type, op,
                           comm_of(call), &made->parts[i]);
    from += (uint64_t)piece;
  }
  return error;
}

static int mpi_reduce_scatter(const keel_link_call *call, request *made) {
  return call->count > INT_MAX ? NO_TYPE
                               : MPI_Ireduce_scatter_block(
                                     call->send, call->receive,
                                     (int)call->count, number_type(call->dtype),
                                     number_op(call->dtype, call->reduction),
                                     comm_of(call), &made->parts[0]);
}

static int move_bytes(const keel_link_call *call, request *made) {
  MPI_Datatype type;
  int count = 0, error = type_of_bytes(call->count, made, &type, &count);
  MPI_Comm comm = comm_of(call);
  MPI_Request *to = &made->parts[0];
  if (error != MPI_SUCCESS) return error;
  switch (call->kind) {
    case KEEL_LINK_ALL_GATHER:
      return MPI_Iallgather(call->send, count, type, call->receive, count, type,
                            comm, to);
    case KEEL_LINK_ALL_TO_ALL:
      return MPI_Ialltoall(call->send, count, type, call->receive, count, type,
                           comm, to);
    case KEEL_LINK_BROADCAST:
      return MPI_Ibcast(call->receive, count, type, (int)call->peer, comm, to);
    case KEEL_LINK_SEND:
      return MPI_Isend(call->send, count, type, (int)call->peer, (int)call->tag,
                       comm, to);
    case KEEL_LINK_RECEIVE:
      made->expects = count;
      made->type = type;
      return MPI_Irecv(call->receive, count, type, (int)call->peer,
                       (int)call->tag, comm, to);
    default:
      return MPI_Ibarrier(comm, to);
  }
}

static int mpi_start(const keel_link_call *call, void **out_request) {
  int reduces = call->kind == KEEL_LINK_ALL_REDUCE ||
                call->kind == KEEL_LINK_REDUCE_SCATTER;
  uint64_t pieces = call->count / INT_MAX + (call->count % INT_MAX != 0);
  int count = call->kind == KEEL_LINK_ALL_REDUCE && pieces ? (int)pieces : 1;
  if (reduces && (number_type(call->dtype) == MPI_DATATYPE_NULL ||
                  call->reduction > KD_REDUCE_MAX))
    return NO_TYPE;
  request *made = new_request(count);
  if (!made) return NO_MEMORY;
  int error = call->kind == KEEL_LINK_ALL_REDUCE ? mpi_all_reduce(call, made)
              : reduces ? mpi_reduce_scatter(call, made)
                        : move_bytes(call, made);
  if (error != MPI_SUCCESS) {
    drop_request(made);
    return error;
  }
  *out_request = made;
  return 0;
}

/* Whether a message has ended, which must be as long as it was expected: MPI refuses longer ones,
 * and takes shorter ones. */
static int test_message(request *made, int *out_ended) {
  MPI_Status status;
  int count = 0;
  int error = MPI_Test(&made->parts[0], out_ended, &status);
  if (error == MPI_SUCCESS && *out_ended)
    error = MPI_Get_count(&status, made->type, &count);
  return error == MPI_SUCCESS && *out_ended && count != made->expects
             ? TOO_SHORT
             : error;
}

/* A part that has ended is a null request, for which MPI_Test says so again. */
static int test(void *self, int *out_ended) {
  request *made = self;
  int error = MPI_SUCCESS;
  *out_ended = 1;
  if (made->expects >= 0) {
    error = test_message(made, out_ended);
    if (error != MPI_SUCCESS || *out_ended) drop_request(made);
    return error;
  }
  for (int i = 0; i < made->count && error == MPI_SUCCESS && *out_ended; i++)
    error = MPI_Test(&made->parts[i], out_ended, MPI_STATUS_IGNORE);
  if (error != MPI_SUCCESS || *out_ended) drop_request(made);
  return error;
}

/* ---- communicators --------------------------------------------------------------------- */

static int mpi_split(uint32_t color, uint32_t key, void **out_comm) {
  MPI_Comm *comm = malloc(sizeof *comm);
  if (!comm) return NO_MEMORY;
  int error = MPI_Comm_split(world, (int)color, (int)key, comm);
  if (error == MPI_SUCCESS)
    *out_comm = comm;
  else
    free(comm);
  return error;
}

static void mpi_release(void *comm) {
  MPI_Comm_free(comm);
  free(comm);
}

/* ---- notes ------------------------------------------------------------------------------ */

/* Sent and not yet gone. They are few: something has gone wrong. */
typedef struct letter {
  struct letter *next;
  MPI_Request sent;
  char text[KEEL_LINK_NOTE];
} letter;

static letter *letters;

static void drop_letters(void) {
  for (letter **link = &letters; *link;) {
    letter *at = *link;
    int gone = 0;
    if (MPI_Test(&at->sent, &gone, MPI_STATUS_IGNORE) != MPI_SUCCESS || gone) {
      *link = at->next;
      free(at);
    } else {
      link = &at->next;
    }
  }
}

static int mpi_tell(uint32_t rank, const void *note) {
  letter *made = malloc(sizeof *made);
  if (!made) return NO_MEMORY;
  memcpy(made->text, note, sizeof made->text);
  int error = MPI_Isend(made->text, KEEL_LINK_NOTE, MPI_BYTE, (int)rank, 0,
                        notes, &made->sent);
  if (error != MPI_SUCCESS) {
    free(made);
    return error;
  }
  made->next = letters;
  letters = made;
  drop_letters();
  return 0;
}

static int hear(void *out_note, int *out_heard) {
  MPI_Status status;
  int error = MPI_Iprobe(MPI_ANY_SOURCE, 0, notes, out_heard, &status);
  if (error != MPI_SUCCESS || !*out_heard) return error;
  return MPI_Recv(out_note, KEEL_LINK_NOTE, MPI_BYTE, status.MPI_SOURCE, 0,
                  notes, MPI_STATUS_IGNORE);
}

/* ---- beginning and end ------------------------------------------------------------------ */

static int mpi_join(void) {
  int there = 0, gone = 0, threads = MPI_THREAD_SINGLE;
  if (is_left && is_ours) return LEFT_OPEN;
  problem = abi_open();
  if (problem) return NO_LIBRARY;
  MPI_Finalized(&gone);
  if (gone) return FINALIZED;
  MPI_Initialized(&there);
  is_ours = !there;
  if (is_ours)
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads);
  MPI_Query_thread(&threads);
  return threads >= MPI_THREAD_SERIALIZED ? MPI_SUCCESS : TOO_FEW_THREADS;
}

static int find_local(keel_link_world *out) {
  MPI_Comm machine;
  int rank = 0, size = 0;
  int error = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
                                  MPI_INFO_NULL, &machine);
  if (error != MPI_SUCCESS) return error;
  MPI_Comm_rank(machine, &rank);
  MPI_Comm_size(machine, &size);
  out->local_rank = (uint32_t)rank;
  out->local_size = (uint32_t)size;
  out->machine = out->rank;
  error = MPI_Bcast(&out->machine, 1, MPI_UINT32_T, 0, machine);
  if (error != MPI_SUCCESS) return error;
  return MPI_Comm_free(&machine);
}

/* The library's first line, as far as there is room. */
static void find_name(keel_link_world *out) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int size = 0;
  if (MPI_Get_library_version(text, &size) != MPI_SUCCESS) size = 0;
  size_t line = 0;
  while (line < (size_t)size && line + 1 < sizeof out->library &&
         text[line] != '\n' && text[line] != ',' && text[line])
    line++;
  memcpy(out->library, text, line);
  out->library[line] = 0;
}

static int open_module(keel_link_world *out) {
  int rank = 0, size = 0;
  int error = mpi_join();
  if (error) return error;
  error = MPI_Comm_dup(MPI_COMM_WORLD, &world);
  if (error == MPI_SUCCESS) error = MPI_Comm_dup(MPI_COMM_WORLD, &notes);
  if (error != MPI_SUCCESS) return error;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(notes, MPI_ERRORS_RETURN);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  is_left = 1;
  out->rank = (uint32_t)rank;
  out->size = (uint32_t)size;
  find_name(out);
  error = make_ops();
  return error == MPI_SUCCESS ? find_local(out) : error;
}

static void close_module(void) {
  for (int type = 0; type < 2; type++)
    for (int i = 0; i < 4; i++)
      MPI_Op_free(&half_ops[type][i]);
  is_left = 0;
  drop_letters();
  MPI_Comm_free(&world);
  MPI_Comm_free(&notes);
  if (is_ours) MPI_Finalize();
}

static void end_all(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  abort(); /* it does not come back */
}

static const char *message(int error) {
  static char text[MPI_MAX_ERROR_STRING];
  int size = 0;
  if (error == TOO_FEW_THREADS)
    return "the application has initialised MPI for one thread: Keel calls it "
           "from"
           " another one, so initialise it by MPI_Init_thread with"
           " MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE";
  if (error == NO_TYPE)
    return "MPI has no such reduction of these elements, or not of so many";
  if (error == NO_MEMORY) return "out of host memory";
  if (error == TOO_SHORT)
    return "a message has fewer elements than the Receive is for";
  if (error == FINALIZED) return "MPI has been finalised in this process";
  if (error == LEFT_OPEN)
    return "a link of this process has failed, and MPI cannot start again";
  if (error == NO_LIBRARY) return problem;
  return MPI_Error_string(error, text, &size) == MPI_SUCCESS && size
             ? text
             : "MPI returned an error without a message";
}

static const keel_link_table table = {
    .struct_size = sizeof(keel_link_table),
    .version = KEEL_LINK_VERSION,
    .open = open_module,
    .close = close_module,
    .split = mpi_split,
    .release = mpi_release,
    .start = mpi_start,
    .test = test,
    .tell = mpi_tell,
    .hear = hear,
    .abort = end_all,
    .message = message,
};

KD_EXPORT const keel_link_table *keel_link_module(void);
const keel_link_table *keel_link_module(void) {
  return &table;
}

/* NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker) */
