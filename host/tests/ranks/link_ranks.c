/* link_ranks.c - one rank of link_test.sh and link_faults.sh: `mpirun -n N link_ranks WHAT
 * [DEADLINE]`, in seconds (2). Prints what a person would see; exit status 1 where something is not
 * as it should be. Further words are for who looks for the process. */
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rank.h"

static void expect(bool holds, const char *what, int64_t i) {
  char text[200];
  if (holds) return;
  snprintf(text, sizeof text, "%s is wrong at %lld", what, (long long)i);
  keel_link_abort(ranks, 1, text);
}

static void open_all(uint64_t timeout) {
  const char *plugins[] = {getenv("CPU_PLUGIN"), getenv("SIM_PLUGIN")};
  const keel_context_params params = {.struct_size = sizeof params,
                                      .flags = KEEL_ONLY_NAMED,
                                      .plugins = plugins,
                                      .plugin_count = !plugins[0]   ? 0
                                                      : !plugins[1] ? 1
                                                                    : 2,
                                      .workers = KEEL_NO_WORKERS};
  const keel_link_params link = {.struct_size = sizeof link,
                                 .timeout = timeout};
  NEED(keel_open(&params, &context));
  keel_status status = keel_link_open(context, &link, &ranks);
  if (status != KD_OK) {
    fprintf(stderr, "refused: %s\n", keel_message());
    keel_close(context);
    exit(2);
  }
  keel_link_look(ranks, &facts);
}

static void close_all(void) {
  keel_link_close(ranks);
  keel_close(context);
}

/* The simulated device of this rank where there is one, or the CPU. */
static keel_device *device_of(void) {
  char name[16] = "cpu:0";
  keel_device *device = NULL;
  if (getenv("SIM_PLUGIN"))
    snprintf(name, sizeof name, "sim:%u", (unsigned)facts.rank % 2);
  if (getenv("CPU_PLUGIN")) NEED(keel_device_find(context, name, &device));
  return device;
}

static keel_tensor *member_on(keel_device *device) {
  keel_tensor *member = NULL;
  NEED(keel_link_member(ranks, device, &member));
  return member;
}

static keel_tensor *member_of(void) {
  return member_on(device_of());
}

/* What the builder has, which is gone then, with this output. */
static keel_program *program_of(keel_builder *builder, keel_value y) {
  keel_program *program = NULL;
  NEED(keel_builder_output(builder, "y", y));
  NEED(keel_builder_finish(builder, &program));
  keel_builder_destroy(builder);
  return program;
}

/* Of all ranks' x. */
static keel_tensor *begin_sum(keel_tensor *member, keel_tensor *x) {
  keel_tensor *inputs[] = {member, x}, *sum = NULL;
  NEED(keel_call(context, "keel::AllReduce", NULL, 0, inputs, 2, &sum, 1));
  return sum;
}

/* ---- values -------------------------------------------------------------------------- */

/* An exchange of X, in a program. */
static keel_tensor *exchange(const char *op, const keel_attr *attrs,
                             uint32_t count, keel_tensor *x) {
  keel_builder *builder = NULL;
  keel_plan *plan = NULL;
  keel_tensor *member = member_of(), *y = NULL;
  NEED(keel_builder_create(context, "ranks", &builder));
  keel_value pair[] = {
      keel_builder_resource(builder, "member"),
      keel_builder_input(builder, "x", keel_tensor_dtype(x),
                         keel_tensor_rank(x), keel_tensor_dims(x))};
  NEED(keel_builder_node_name(builder, "it"));
  keel_program *program =
      program_of(builder, keel_builder_op(builder, op, attrs, count, pair, 2));
  NEED(keel_plan_create(program, NULL, &plan));
  keel_tensor *inputs[] = {member, x};
  NEED(keel_plan_run(plan, inputs, 2, &y, 1));
  NEED(keel_tensor_wait(y));
  keel_tensor_release(member);
  keel_plan_release(plan);
  keel_program_release(program);
  return y;
}

static keel_tensor *numbers(kd_dtype dtype, int64_t rows, int64_t columns,
                            int64_t base) {
  const int64_t dims[] = {rows, columns};
  float *list = malloc(sizeof *list * (size_t)(rows * columns));
  keel_tensor *floats = NULL, *made = NULL;
  for (int64_t i = 0; i < rows * columns; i++)
    list[i] = (float)((base + i * 3) % 5);
  NEED(keel_tensor_create(context, KD_F32, 2, dims, list, &floats));
  free(list);
  const keel_attr to = KEEL_INT("to", dtype);
  if (dtype == KD_F32) return floats;
  NEED(keel_call(context, "Cast", &to, 1, &floats, 1, &made, 1));
  keel_tensor_release(floats);
  return made;
}

/* Elements as floats. The tensor goes; the caller frees them. */
static float *read_all(keel_tensor *tensor) {
  const keel_attr to = KEEL_INT("to", KD_F32);
  keel_tensor *floats = NULL;
  NEED(keel_call(context, "Cast", &to, 1, &tensor, 1, &floats, 1));
  float *list = malloc(keel_tensor_size(floats) + 1);
  NEED(keel_tensor_read(floats, list, keel_tensor_size(floats)));
  keel_tensor_release(floats);
  keel_tensor_release(tensor);
  return list;
}

static float element(int64_t rank, int64_t i) {
  return (float)((rank * 7 + i * 3) % 5);
}

static void reduce(kd_dtype dtype) {
  static const char *const names[] = {"sum", "product", "min", "max"};
  int64_t rows = 2 * facts.size, columns = 3;
  for (int k = 0; k < 4; k++) {
    const keel_attr attrs[] = {KEEL_STRING("reduction", names[k]),
                               KEEL_INT("size", facts.size)};
    keel_tensor *x = numbers(dtype, rows, columns, facts.rank * 7);
    float *all = read_all(exchange("keel::AllReduce", attrs, 2, x));
    float *part = read_all(exchange("keel::ReduceScatter", attrs, 2, x));
    for (int64_t i = 0; i < rows * columns; i++) {
      float want = element(0, i);
      for (int64_t r = 1; r < facts.size; r++) {
        float one = element(r, i);
        want = k == 0   ? want + one
               : k == 1 ? want * one
               : k == 2 ? fminf(want, one)
                        : fmaxf(want, one);
      }
      expect(all[i] == want, names[k], i);
      int64_t at = i - facts.rank * 2 * columns;
      if (at >= 0 && at < 2 * columns)
        expect(part[at] == want, "ReduceScatter", at);
    }
    keel_tensor_release(x);
    free(all);
    free(part);
  }
}

static void move(kd_dtype dtype) {
  int64_t n = facts.size, rows = 2 * n, columns = 5, block = 2 * columns;
  const keel_attr size = KEEL_INT("size", n);
  keel_tensor *x = numbers(dtype, rows, columns, facts.rank * 7);
  float *joined = read_all(exchange("keel::AllGather", &size, 1, x));
  float *turned = read_all(exchange("keel::AllToAll", &size, 1, x));
  float *first = read_all(exchange("keel::Broadcast", NULL, 0, x));
  for (int64_t r = 0; r < n; r++)
    for (int64_t i = 0; i < rows * columns; i++)
      expect(joined[r * rows * columns + i] == element(r, i), "AllGather", i);
  for (int64_t i = 0; i < rows * columns; i++) {
    expect(turned[i] == element(i / block, facts.rank * block + i % block),
           "AllToAll", i);
    expect(first[i] == element(0, i), "Broadcast", i);
  }
  /* to the next one; nobody sends to rank 0 */
  int64_t pairs[64] = {0};
  for (int64_t r = 0; r + 1 < n; r++) {
    pairs[2 * r] = r;
    pairs[2 * r + 1] = r + 1;
  }
  const keel_attr to = KEEL_INTS("pairs", 2 * (uint32_t)(n - 1), pairs);
  float *passed = read_all(exchange("keel::Permute", &to, 1, x));
  for (int64_t i = 0; i < rows * columns; i++)
    expect(passed[i] == (facts.rank ? element(facts.rank - 1, i) : 0),
           "Permute", i);
  keel_tensor_release(x);
  free(joined);
  free(turned);
  free(first);
  free(passed);
}

/* Pairs of ranks, the second of a pair first: {1, 0}, {3, 2} ... */
static void parts(void) {
  int64_t n = facts.size, list[64];
  if (n % 2) return;
  for (int64_t r = 0; r < n; r++)
    list[r] = r ^ 1;
  const keel_attr attrs[] = {KEEL_INT("size", 2),
                             KEEL_INTS("ranks", (uint32_t)n, list)};
  keel_tensor *x = numbers(KD_F32, 2, 2, facts.rank * 7);
  int64_t even = facts.rank & ~1u;
  for (int again = 0; again < 2; again++) {
    float *sum = read_all(exchange("keel::AllReduce", attrs, 2, x));
    float *joined = read_all(exchange("keel::AllGather", attrs, 2, x));
    float *first = read_all(exchange("keel::Broadcast", attrs, 2, x));
    for (int64_t i = 0; i < 4; i++) {
      expect(sum[i] == element(even, i) + element(even + 1, i), "a part's sum",
             i);
      expect(joined[i] == element(even + 1, i), "a part's first rows", i);
      expect(joined[4 + i] == element(even, i), "a part's last rows", i);
      expect(first[i] == element(even + 1, i), "a part's Broadcast", i);
    }
    free(sum);
    free(joined);
    free(first);
  }
  keel_tensor_release(x);
}

/* ---- Send and Receive ---------------------------------------------------------------------- */

enum { MESSAGES = 12, LARGE = 300000 };

/* Of a message from one rank to another: its length, and a number in it. */
static int64_t length_of(int64_t i) {
  return i % 3 == 0 ? LARGE : 1 + i;
}
static float number_of(int64_t from, int64_t to, int64_t i) {
  return (float)(100000 * from + 1000 * to + i);
}

static keel_tensor *message(int64_t to, int64_t i) {
  const int64_t length = length_of(i);
  float *list = malloc(sizeof *list * (size_t)length);
  keel_tensor *made = NULL;
  for (int64_t k = 0; k < length; k++)
    list[k] = number_of(facts.rank, to, i) + (float)(k % 7);
  NEED(keel_tensor_create(context, KD_F32, 1, &length, list, &made));
  free(list);
  return made;
}

static keel_tensor *receive(keel_tensor *member, int64_t from, int64_t length) {
  const keel_attr attrs[] = {KEEL_INT("from", from),
                             KEEL_INTS("shape", 1, &length)};
  keel_tensor *y = NULL;
  NEED(keel_call(context, "keel::Receive", attrs, 2, &member, 1, &y, 1));
  return y;
}

static keel_tensor *give(keel_tensor *member, int64_t to, keel_tensor *x) {
  const keel_attr attr = KEEL_INT("to", to);
  keel_tensor *pair[] = {member, x}, *y = NULL;
  NEED(keel_call(context, "keel::Send", &attr, 1, pair, 2, &y, 1));
  return y;
}

/* All ranks give all others messages, large and small; receives come first on some ranks, and
 * exchanges of all ranks in between. */
static void messages(void) {
  static keel_tensor *sent[64][MESSAGES], *came[64][MESSAGES];
  keel_tensor *member = member_on(NULL), *x = message(0, 1);
  for (int step = 0; step < 2; step++) {
    for (int64_t i = 0; i < MESSAGES; i++)
      for (int64_t r = 0; r < facts.size; r++) {
        if (r == facts.rank) continue;
        if ((facts.rank % 2 == 0) == (step == 0)) {
          keel_tensor *own = message(r, i);
          sent[r][i] = give(member, r, own);
          keel_tensor_release(own);
        } else {
          came[r][i] = receive(member, r, length_of(i));
        }
      }
    keel_tensor *sum = begin_sum(member, x);
    NEED(keel_tensor_wait(sum)); /* while messages wait for their other ends */
    keel_tensor_release(sum);
  }
  for (int64_t r = 0; r < facts.size; r++)
    for (int64_t i = 0; i < MESSAGES && r != facts.rank; i++) {
      NEED(keel_tensor_wait(sent[r][i]));
      float *list = read_all(came[r][i]);
      for (int64_t k = 0; k < length_of(i); k++)
        expect(list[k] == number_of(r, facts.rank, i) + (float)(k % 7),
               "a message", k);
      free(list);
      keel_tensor_release(sent[r][i]);
    }
  keel_tensor_release(x);
  keel_tensor_release(member);
}

/* A sum of so many elements, in a member's memory; where it is a Broadcast, of all ranks as a part
 * whose first is the last, that one's. */
static void long_value(const char *op, kd_dtype dtype, int64_t count,
                       keel_device *device) {
  bool sums = !strcmp(op, "keel::AllReduce");
  keel_tensor *x = numbers(dtype, 1, count, facts.rank * 7);
  keel_tensor *member = member_on(device), *y = NULL, *there = NULL;
  NEED(keel_device_push(device_of()));
  NEED(keel_call(context, "keel::Copy", NULL, 0, &x, 1, &there, 1));
  keel_device_pop();
  keel_tensor *inputs[] = {member, there};
  int64_t turned[64];
  for (int64_t r = 0; r < facts.size; r++)
    turned[r] = facts.size - 1 - r;
  const keel_attr attrs[] = {KEEL_INT("size", facts.size),
                             KEEL_INTS("ranks", facts.size, turned)};
  NEED(keel_call(context, op, attrs, sums ? 0 : 2, inputs, 2, &y, 1));
  NEED(keel_tensor_wait(y));
  expect(device || !keel_tensor_device(y), "where a long value is", count);
  float *list = read_all(y);
  for (int64_t k = 0; k < count; k++) {
    float want = element(facts.size - 1, k);
    for (int64_t r = 0; sums && r + 1 < facts.size; r++)
      want += element(r, k);
    expect(list[k] == want, "a long value", k);
  }
  free(list);
  keel_tensor_release(there);
  keel_tensor_release(x);
  keel_tensor_release(member);
}

/* Sizes that ranks do not share evenly, or that are no whole pieces of what is moved at once; a
 * member in host memory gets one, too. */
static void sizes(void) {
  long_value("keel::AllReduce", KD_F32, 1, device_of());
  long_value("keel::AllReduce", KD_F32, 1000003, NULL);
  long_value("keel::AllReduce", KD_F32, 262144, device_of());
  long_value("keel::AllReduce", KD_I32, 1200001, device_of());
  long_value("keel::AllReduce", KD_I64, 700001, NULL);
  long_value("keel::Broadcast", KD_I32, 1200001, device_of());
  long_value("keel::Broadcast", KD_F32, 5, device_of());
}

/* Of bools, sum and max are whether any is true, product and min whether all are. */
static void bools(void) {
  static const char *const names[] = {"sum", "max", "product", "min"};
  const int64_t dims[] = {3};
  const uint8_t own[] = {1, 0, facts.rank == facts.size - 1};
  const uint8_t any[] = {1, 0, 1}, all[] = {1, 0, facts.size == 1};
  uint8_t got[3];
  for (int k = 0; k < 4; k++) {
    const keel_attr attr = KEEL_STRING("reduction", names[k]);
    keel_tensor *x = NULL;
    NEED(keel_tensor_create(context, KD_BOOL, 1, dims, own, &x));
    keel_tensor *y = exchange("keel::AllReduce", &attr, 1, x);
    NEED(keel_tensor_read(y, got, sizeof got));
    expect(!memcmp(got, k < 2 ? any : all, sizeof got), names[k], k);
    keel_tensor_release(x);
    keel_tensor_release(y);
  }
}

/* One rank has NaN, one -0 beside the others' 0: all get the same, whichever that is. */
static void halves(void) {
  enum { NOT_A_NUMBER = 0x7e00, MINUS = 0x8000 };
  static const char *const names[] = {"min", "max"};
  const int64_t dims[] = {2};
  uint32_t last = facts.size - 1;
  const uint16_t own[] = {facts.rank ? 0x3c00 : NOT_A_NUMBER,
                          facts.rank == last ? MINUS : 0};
  for (int k = 0; k < 2 && last; k++) {
    uint16_t got[2];
    const keel_attr attr = KEEL_STRING("reduction", names[k]);
    keel_tensor *x = NULL;
    NEED(keel_tensor_create(context, KD_F16, 1, dims, own, &x));
    keel_tensor *y = exchange("keel::AllReduce", &attr, 1, x);
    NEED(keel_tensor_read(y, got, sizeof got));
    expect((got[0] & 0x7c00) == 0x7c00 && (got[0] & 0x3ff), "NaN", k);
    expect(got[1] == (k ? 0 : MINUS), "zeros", k);
    keel_tensor_release(x);
    keel_tensor_release(y);
  }
}

/* Values without elements are exchanged, too. */
static void nothing(void) {
  static const char *const names[] = {"keel::AllReduce", "keel::Broadcast",
                                      "keel::AllGather"};
  const int64_t dims[] = {0, 3};
  const keel_attr size = KEEL_INT("size", facts.size);
  for (int k = 0; k < 3; k++) {
    keel_tensor *x = NULL;
    NEED(keel_tensor_create(context, KD_F32, 2, dims, NULL, &x));
    keel_tensor *y = exchange(names[k], &size, k == 2, x);
    expect(keel_tensor_size(y) == 0 && keel_tensor_dims(y)[1] == 3, names[k],
           k);
    keel_tensor_release(x);
    keel_tensor_release(y);
  }
}

static void values(void) {
  static const kd_dtype types[] = {KD_F32, KD_F64, KD_F16, KD_BF16,
                                   KD_I8,  KD_I32, KD_I64, KD_U16};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    reduce(types[i]);
    move(types[i]);
  }
  parts();
  sizes();
  messages();
  nothing();
  if (!device_of()) bools(); /* by MPI; plugins have rules of their own */
  if (!device_of()) halves();
  keel_link_facts now;
  keel_link_look(ranks, &now);
  expect(now.exchanges >= 8 * 8 && now.bytes > 0, "the count of exchanges",
         (int64_t)now.exchanges);
  if (!facts.rank)
    printf("%u ranks agree: %llu direct, %llu in levels, %llu in pieces\n",
           (unsigned)facts.size, (unsigned long long)now.direct,
           (unsigned long long)now.levels, (unsigned long long)now.pieces);
}

/* While rank 0 waits for the others, its device computes. */
static void beside(void) {
  keel_tensor *member = member_of(), *x = numbers(KD_F32, 2, 2, facts.rank);
  keel_tensor *negative = NULL;
  char byte = 0, bytes[64];
  for (int i = 0; i < 2; i++) {
    NEED(keel_link_gather(ranks, &byte, 1, bytes));
    if (i && facts.rank) sleep(1);
    keel_tensor *sum = begin_sum(member, x);
    if (i && !facts.rank) {
      usleep(50000);
      NEED(keel_device_push(device_of()));
      NEED(keel_call(context, "Neg", NULL, 0, &x, 1, &negative, 1));
      keel_device_pop();
      free(read_all(negative));
      expect(keel_tensor_query(sum) == KD_BUSY, "what a late rank gives", 0);
    }
    NEED(keel_tensor_wait(sum));
    keel_tensor_release(sum);
  }
  keel_tensor_release(x);
  keel_tensor_release(member);
  if (!facts.rank) printf("kernels ran beside\n");
}

/* ---- what goes wrong --------------------------------------------------------------------- */

static keel_tensor *small(void) {
  return numbers(KD_F32, 1, 4, facts.rank);
}

/* One sum; a failure is the last word of all. */
static void sum_or_end(void) {
  keel_tensor *x = small();
  keel_tensor_release(exchange("keel::AllReduce", NULL, 0, x));
  keel_tensor_release(x);
}

static void two_and_sleep(void) {
  sum_or_end();
  if (facts.rank == 1) sleep(60);
  sum_or_end();
}

/* The same of values that go in pieces, where there is a simulated device. */
static void long_and_sleep(void) {
  long_value("keel::AllReduce", KD_I32, 1200001, device_of());
  if (facts.rank == 1) sleep(60);
  long_value("keel::AllReduce", KD_I32, 1200001, device_of());
}

static void two_and_stop(void) {
  sum_or_end();
  if (facts.rank == 1) raise(SIGSTOP);
  sum_or_end();
}

/* Rank 0 waits for what rank 1 does not send. */
static void one_silent(void) {
  keel_tensor *member = member_on(NULL);
  if (facts.rank == 1) sleep(60);
  if (facts.rank) sum_or_end();
  keel_tensor *y = receive(member, 1, 4);
  NEED(keel_tensor_wait(y));
}

/* A message of rank 1 has other elements than rank 0 waits for. */
static void one_short(void) {
  keel_tensor *member = member_of();
  keel_tensor *x = small();
  if (facts.rank == 1) NEED(keel_tensor_wait(give(member, 0, x)));
  if (!facts.rank) NEED(keel_tensor_wait(receive(member, 1, 5)));
  sum_or_end();
}

static void two_and_die(void) {
  sum_or_end();
  if (facts.rank == 1) raise(SIGKILL);
  sum_or_end();
}

/* The value of rank 1 fails, and so all ranks' do. */
static void one_fails(void) {
  keel_tensor *member = member_of(), *x = NULL, *y = NULL, *value = small();
  char want[] = "rank 1: the disk is full";
  NEED(keel_tensor_promise(context, &x));
  if (facts.rank == 1)
    NEED(keel_tensor_fail(x, KD_UNAVAILABLE, "the disk is full"));
  else
    NEED(keel_tensor_fulfil(x, value));
  keel_tensor *inputs[] = {member, x};
  keel_status status =
      keel_call(context, "keel::AllReduce", NULL, 0, inputs, 2, &y, 1);
  if (status == KD_OK) status = keel_tensor_wait(y);
  expect(status == KD_UNAVAILABLE, "the status of a failure", status);
  if (!strstr(keel_message(), want) && facts.rank != 1)
    keel_link_abort(ranks, 1, keel_message());
  if (facts.rank) sleep(60); /* rank 0 ends all, when it has said so */
  fprintf(stderr, "%s\n", keel_message());
  keel_link_abort(ranks, 3, NULL);
}

/* The sum of x, then a column of that, which rank 1 has not, and the sum of those. */
static keel_program *column_sums(void) {
  keel_builder *builder = NULL;
  const int64_t dims[] = {1, 4}, one = 1, index = facts.rank == 1 ? 9 : 1;
  const keel_attr axis = KEEL_INT("axis", 1);
  keel_tensor *at = NULL;
  NEED(keel_builder_create(context, "columns", &builder));
  NEED(keel_tensor_create(context, KD_I64, 1, &one, &index, &at));
  keel_value pair[] = {keel_builder_resource(builder, "member"),
                       keel_builder_input(builder, "x", KD_F32, 2, dims)};
  pair[1] = keel_builder_op(builder, "keel::AllReduce", NULL, 0, pair, 2);
  const keel_value column[] = {pair[1], keel_builder_constant(builder, at)};
  pair[1] = keel_builder_op(builder, "Gather", &axis, 1, column, 2);
  keel_tensor_release(at);
  return program_of(
      builder, keel_builder_op(builder, "keel::AllReduce", NULL, 0, pair, 2));
}

/* The run of rank 1 fails between two exchanges; what it does after that is none. */
static void run_fails(void) {
  keel_program *program = column_sums();
  keel_plan *plan = NULL;
  NEED(keel_plan_create(program, NULL, &plan));
  keel_tensor *y = NULL, *in[] = {member_of(), numbers(KD_F32, 1, 4, 0)};
  keel_status status = keel_plan_run(plan, in, 2, &y, 1);
  expect(status == KD_OUT_OF_RANGE, "the status of a run", status);
  if (facts.rank == 1) {
    /* its next exchange is not the others' second one */
    status = keel_plan_run(plan, in, 2, &y, 1);
    expect(status == KD_OUT_OF_RANGE, "the status of the next run", status);
    sleep(60);
  }
  keel_link_abort(ranks, 3, keel_message());
}

/* Rank 1 fails when the others have left. */
static void last_fails(void) {
  keel_tensor *x = NULL;
  sum_or_end();
  if (facts.rank != 1) return;
  usleep(300000);
  NEED(keel_tensor_promise(context, &x));
  NEED(keel_tensor_fail(x, KD_UNAVAILABLE, "the disk is full"));
  NEED(keel_tensor_wait(begin_sum(member_on(NULL), x)));
}

/* Rank 1, or the only one, ends as if nobody waited for it. */
static void two_and_exit(void) {
  sum_or_end();
  if (facts.rank == 1 || facts.size == 1) exit(0);
  sum_or_end();
}

/* Rank 1 takes its leave while the others exchange. */
static void two_and_leave(void) {
  sum_or_end();
  if (facts.rank != 1) sum_or_end();
}

static keel_program *two_sums(const char *second) {
  keel_builder *builder = NULL;
  const int64_t dims[] = {4};
  NEED(keel_builder_create(context, "ranks", &builder));
  keel_value pair[] = {keel_builder_resource(builder, "member"),
                       keel_builder_input(builder, "x", KD_F32, 1, dims)};
  NEED(keel_builder_node_name(builder, "first"));
  pair[1] = keel_builder_op(builder, "keel::AllReduce", NULL, 0, pair, 2);
  NEED(keel_builder_node_name(builder, "second"));
  return program_of(builder,
                    keel_builder_op(builder, second, NULL, 0, pair, 2));
}

/* A program that sends to the next rank, or receives from the one before. */
static keel_program *passing(bool sends, int64_t length) {
  keel_builder *builder = NULL;
  int64_t size = facts.size, before = (facts.rank + size - 1) % size;
  const keel_attr to = KEEL_INT("to", (facts.rank + 1) % size);
  const keel_attr of[] = {KEEL_INT("from", before),
                          KEEL_INTS("shape", 1, &length)};
  NEED(keel_builder_create(context, "ranks", &builder));
  keel_value pair[] = {keel_builder_resource(builder, "member"),
                       keel_builder_input(builder, "x", KD_F32, 1, &length)};
  NEED(keel_builder_node_name(builder, "there"));
  if (sends) keel_builder_op(builder, "keel::Send", &to, 1, pair, 2);
  NEED(keel_builder_node_name(builder, "here"));
  return program_of(builder,
                    keel_builder_op(builder, "keel::Receive", of, 2, pair, 1));
}

static void expect_other(keel_program *other, const char *words) {
  keel_status status = keel_link_check(ranks, other);
  expect(status == KD_INVALID_ARGUMENT, "the check's status", status);
  if (!strstr(keel_message(), words)) keel_link_abort(ranks, 1, keel_message());
  keel_program_release(other);
}

static void messages_differ(void) {
  keel_program *same = passing(true, 4);
  NEED(keel_link_check(ranks, same));
  keel_program_release(same);
  expect_other(passing(facts.rank != 1, 4), "at message 1 of rank 1 to rank ");
  expect_other(passing(facts.rank != 1, 4),
               "the one has no Send any more, and the other Receive \"here\"");
  expect_other(passing(true, facts.rank ? 4 : 5),
               "the one has Send \"there\" of f32[5], and the other Receive"
               " \"here\" of f32[4]");
}

static void programs_differ(void) {
  keel_program *same = two_sums("keel::AllReduce");
  keel_program *other =
      two_sums(facts.rank == 1 ? "keel::Broadcast" : "keel::AllReduce");
  NEED(keel_link_check(ranks, same));
  keel_status status = keel_link_check(ranks, other);
  expect(status == KD_INVALID_ARGUMENT, "the check's status", status);
  if (!facts.rank) fprintf(stderr, "%s\n", keel_message());
  keel_program_release(same);
  keel_program_release(other);
  messages_differ();
}

/* All ranks end at once, with words of their own. */
static void all_end(void) {
  keel_link_abort(ranks, 5, "the file is damaged");
}

/* The last two do, while the others wait for them. */
static void two_end(void) {
  sum_or_end();
  if (facts.rank + 2 >= facts.size)
    keel_link_abort(ranks, 5, "the file is damaged");
  sum_or_end();
}

/* After the link has listened to notes. */
static void library(void) {
  usleep(250000);
  if (!facts.rank) printf("%s\n", facts.library);
}

/* ---- time --------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* Microseconds of so many AllReduces of X, called eagerly, in ascending order. */
static void time_sums(keel_tensor *member, keel_tensor *x, int count,
                      double *times) {
  for (int i = 0; i < count; i++) {
    char byte = 0, bytes[64];
    NEED(keel_link_gather(ranks, &byte, 1, bytes)); /* all begin at once */
    double began = now();
    keel_tensor *y = begin_sum(member, x);
    NEED(keel_tensor_wait(y));
    times[i] = now() - began;
    keel_tensor_release(y);
  }
  qsort(times, (size_t)count, sizeof *times, ascending);
}

static void speed(void) {
  enum { TIMES = 300 };
  static const int64_t sizes[] = {1, 1024, 16384, 1 << 18};
  keel_tensor *member = member_on(NULL);
  double times[TIMES];
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    keel_tensor *x = NULL;
    NEED(keel_tensor_create(context, KD_F32, 1, &sizes[s], NULL, &x));
    time_sums(member, x, TIMES, times);
    if (!facts.rank)
      printf("AllReduce of %8lld bytes: p10 %.1f us, p50 %.1f us\n",
             (long long)sizes[s] * 4, times[TIMES / 10], times[TIMES / 2]);
    keel_tensor_release(x);
  }
  keel_tensor_release(member);
}

/* Of 32 MiB that the device's plugin has not, and that go through host memory. */
static void long_speed(void) {
  enum { TIMES = 9 };
  const int64_t size = 8 << 20;
  keel_tensor *member = member_of(), *x = NULL, *there = NULL;
  double times[TIMES];
  NEED(keel_tensor_create(context, KD_I32, 1, &size, NULL, &x));
  NEED(keel_device_push(device_of()));
  NEED(keel_call(context, "keel::Copy", NULL, 0, &x, 1, &there, 1));
  keel_device_pop();
  time_sums(member, there, TIMES, times);
  if (!facts.rank)
    printf("AllReduce of 32 MiB: p10 %.1f ms, p50 %.1f ms\n",
           times[TIMES / 10] * 1e-3, times[TIMES / 2] * 1e-3);
  keel_tensor_release(there);
  keel_tensor_release(x);
  keel_tensor_release(member);
}

/* Nanoseconds; 0: the link's own. */
static uint64_t deadline(int count, char **words) {
  if (!strcmp(words[1], "values") || !strcmp(words[1], "speed") ||
      !strcmp(words[1], "long"))
    return 0;
  return (uint64_t)((count > 2 ? strtod(words[2], NULL) : 2) * 1e9);
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    void (*run)(void);
  } all[] = {{"values", values},        {"beside", beside},
             {"sleep", two_and_sleep},  {"stop", two_and_stop},
             {"silent", one_silent},    {"short", one_short},
             {"die", two_and_die},      {"exit", two_and_exit},
             {"leave", two_and_leave},  {"fail", one_fails},
             {"last", last_fails},      {"differ", programs_differ},
             {"run", run_fails},        {"end", all_end},
             {"two", two_end},          {"library", library},
             {"speed", speed},          {"long", long_speed},
             {"asleep", long_and_sleep}};
  if (count < 2) return 2;
  open_all(deadline(count, words));
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(all[i].name, words[1])) all[i].run();
  close_all();
  return 0;
}
