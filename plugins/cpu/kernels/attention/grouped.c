/* grouped.c - com.microsoft's GroupQueryAttention, with its cache in place.
 *
 * The new rows of K and V go to their places in the cache first, K rotated by its position; then
 * all that is there is attended to, by attention.c. host/src/opsets/microsoft/grouped.c has the
 * semantics. */
#include <stdatomic.h>

#include "attention.h"
#include "kernels.h"

enum {
  QUERY,
  KEY,
  VALUE,
  PAST_KEY,
  PAST_VALUE,
  LENGTHS,
  TOTAL,
  COS,
  SIN,
  PLACES,
  BIAS,
  SINK
};
enum { OUTPUT, PRESENT_KEY, PRESENT_VALUE };

/* A cache, [batch, groups, room, size]: what the launch gives, or scratch memory where nobody
 * wants it afterwards. */
typedef struct cache {
  float *data;
  void *own;
} cache;

typedef struct grouped {
  const kd_launch *launch;
  int64_t batch, rows, heads, groups, size, room, total;
  const float *q, *k,
      *v; /* a row's first head; rows lie q_step and k_step apart */
  int64_t q_step, k_step;
  float *rotated; /* Q, [batch, rows, heads, size]; NULL: as it is */
  cache key, value;
  int64_t rotating; /* numbers of a head that turn, in pairs */
  bool interleaved;
  const float *sinks; /* of each head, or NULL */
  atomic_int status;
} grouped;

static const kd_tensor *grouped_in(const grouped *g, uint32_t index) {
  return &g->launch->inputs[index];
}

/* Where the new rows of a batch begin. */
static int64_t grouped_begin_of(const grouped *g, int64_t b) {
  return g->rows == g->total ? 0
                             : int_at(grouped_in(g, LENGTHS), b) + 1 - g->rows;
}

/* ---- new rows ------------------------------------------------------------------------------ */

static int64_t grouped_place_of(const grouped *g, int64_t b, int64_t row) {
  return g->rotated && kd_has_input(g->launch, PLACES)
             ? int_at(grouped_in(g, PLACES), b * g->rows + row)
             : grouped_begin_of(g, b) + row;
}

/* One head: pairs (x, y) become (x cos - y sin, x sin + y cos). */
static void kernels_grouped_turn(const grouped *g, const float *from,
                                 int64_t place, float *to) {
  int64_t half = g->rotating / 2, step = g->interleaved ? 2 : 1;
  int64_t other = g->interleaved ? 1 : half;
  const float *cos = (const float *)grouped_in(g, COS)->data + place * half;
  const float *sin = (const float *)grouped_in(g, SIN)->data + place * half;
  for (int64_t i = 0; i < half; i++) {
    float x = from[i * step], y = from[i * step + other];
    to[i * step] = x * cos[i] - y * sin[i];
    to[i * step + other] = x * sin[i] + y * cos[i];
  }
  memcpy(to + g->rotating, from + g->rotating,
         (size_t)(g->size - g->rotating) * sizeof *to);
}

static void put_row(const grouped *g, int64_t b, int64_t row, int64_t place) {
  int64_t at = b * g->rows + row, size = g->size;
  const float *q = g->q + at * g->q_step, *k = g->k + at * g->k_step;
  const float *v = g->v + at * g->k_step;
  for (int64_t h = 0; g->rotated && h < g->heads; h++)
    kernels_grouped_turn(g, q + h * size, place,
                         g->rotated + (at * g->heads + h) * size);
  for (int64_t h = 0; h < g->groups; h++) {
    int64_t to =
        ((b * g->groups + h) * g->room + grouped_begin_of(g, b) + row) * size;
    if (g->rotated)
      kernels_grouped_turn(g, k + h * size, place, g->key.data + to);
    else
      memcpy(g->key.data + to, k + h * size, (size_t)size * sizeof *k);
    memcpy(g->value.data + to, v + h * size, (size_t)size * sizeof *v);
  }
}

static void put_rows(void *context, int64_t from, int64_t to) {
  grouped *g = context;
  int64_t places = g->rotated ? grouped_in(g, COS)->dims[0] : INT64_MAX;
  for (int64_t i = from; i < to; i++) {
    int64_t b = i / g->rows, row = i % g->rows,
            place = grouped_place_of(g, b, row);
    if (place >= 0 && place < places)
      put_row(g, b, row, place);
    else
      g->status = KD_INVALID_ARGUMENT;
  }
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* Takes over what was there, where it is not there already. */
static void take_past(const grouped *g, uint32_t index, float *to) {
  if (!kd_has_input(g->launch, index) || grouped_in(g, index)->data == to)
    return;
  const float *from = grouped_in(g, index)->data;
  int64_t before = grouped_in(g, index)->dims[2], size = g->size;
  for (int64_t i = 0; i < g->batch * g->groups; i++) {
    memcpy(to + i * g->room * size, from + i * before * size,
           (size_t)(before * size) * sizeof *to);
    memset(to + (i * g->room + before) * size, 0,
           (size_t)((g->room - before) * size) * sizeof *to);
  }
}

static kd_status open_cache(const grouped *g, uint32_t output, cache *out) {
  uint64_t bytes =
      (uint64_t)(g->batch * g->groups * g->room * g->size) * sizeof(float);
  if (kd_has_output(g->launch, output)) {
    out->data = g->launch->outputs[output].data;
    return KD_OK;
  }
  out->data = out->own = cpu_host->allocate(cpu_host, bytes + 1, 0);
  return out->own ? KD_OK
                  : FAIL(KD_OUT_OF_MEMORY, "no %llu bytes for keys or values",
                         (unsigned long long)bytes);
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* A bias has total_sequence_length columns. */
static kd_status check_lengths(const grouped *g) {
  bool first = g->rows == g->total, biased = kd_has_input(g->launch, BIAS);
  int64_t least = first ? 0 : g->rows - 1;
  int64_t most = (biased && !first ? g->total : g->room) - 1;
  for (int64_t b = 0; b < g->batch; b++) {
    int64_t length = int_at(grouped_in(g, LENGTHS), b);
    if (length < least || length > most)
      return FAIL(KD_INVALID_ARGUMENT,
                  "seqlens_k[%lld] is %lld, outside of %lld..%lld: it does not"
                  " fit %lld new rows, a cache of %lld places and a"
                  " total_sequence_length of %lld",
                  (long long)b, (long long)length, (long long)least,
                  (long long)most, (long long)g->rows, (long long)g->room,
                  (long long)g->total);
  }
  return KD_OK;
}

/* What is added to scores; `keys`: how many of the first are left out. */
static attention_matrices bias_of(const grouped *g, int64_t b, int64_t keys) {
  if (!kd_has_input(g->launch, BIAS)) return (attention_matrices){0};
  const kd_tensor *bias = grouped_in(g, BIAS);
  int64_t matrix = bias->dims[2] * bias->dims[3];
  int64_t batch = bias->dims[0] > 1 ? b * bias->dims[1] * matrix : 0;
  return (attention_matrices){.data = (const float *)bias->data + batch + keys,
                              .head = bias->dims[1] > 1 ? matrix : 0,
                              .down = bias->dims[3],
                              .across = 1};
}

static kd_status attend(const grouped *g, int64_t b) {
  int64_t n = grouped_begin_of(g, b) + g->rows, size = g->size;
  int64_t window = attr_int(g->launch, "local_window_size", -1);
  int64_t skipped = window >= 0 && n - g->rows + 1 > window
                        ? n - g->rows + 1 - window
                        : 0; /* which the first row does not see */
  int64_t cached = (b * g->groups * g->room + skipped) * size;
  float scale = attr_float(g->launch, "scale", 0);
  attention_call call = {.outer = 1,
                         .heads = g->heads,
                         .groups = g->groups,
                         .m = g->rows,
                         .n = n - skipped,
                         .d = size,
                         .e = size,
                         .scale = scale != 0 ? scale : 1 / sqrtf((float)size),
                         .softcap = attr_float(g->launch, "softcap", 0),
                         .window = window > 0 ? window : 0,
                         .sinks = g->sinks,
                         .causal = true,
                         .nan_as_zero = true,
                         .mask = bias_of(g, b, skipped)};
  call.q = (attention_matrices){
      .data = g->rotated ? g->rotated + b * g->rows * g->heads * size
                         : g->q + b * g->rows * g->q_step,
      .head = size,
      .down = g->rotated ? g->heads * size : g->q_step,
      .across = 1};
  call.k = (attention_matrices){.data = g->key.data + cached,
                                .head = g->room * size,
                                .down = size,
                                .across = 1};
  call.v = call.k;
  call.v.data = g->value.data + cached;
  call.y = (attention_matrices){
      .data = (const float *)g->launch->outputs[OUTPUT].data +
              b * g->rows * g->heads * size,
      .head = size,
      .down = g->heads * size,
      .across = 1};
  return cpu_attend(&call);
}

static void read_shapes(grouped *g) {
  const kd_launch *launch = g->launch;
  bool packed = !kd_has_input(launch, KEY);
  const kd_tensor *q = grouped_in(g, QUERY);
  g->heads = attr_int(launch, "num_heads", 1);
  g->groups = attr_int(launch, "kv_num_heads", 1);
  g->batch = q->dims[0];
  g->rows = q->dims[1];
  g->size = q->dims[2] / (packed ? g->heads + 2 * g->groups : g->heads);
  g->total = int_at(grouped_in(g, TOTAL), 0);
  g->room = g->total;
  if (kd_has_input(launch, PAST_KEY) &&
      grouped_in(g, PAST_KEY)->dims[2] > g->total)
    g->room = grouped_in(g, PAST_KEY)->dims[2];
  g->q = q->data;
  g->q_step = q->dims[2];
  g->k = packed ? g->q + g->heads * g->size : grouped_in(g, KEY)->data;
  g->v = packed ? g->k + g->groups * g->size : grouped_in(g, VALUE)->data;
  g->k_step = packed ? g->q_step : g->groups * g->size;
  g->rotated = attr_int(launch, "do_rotary", 0) ? launch->workspace.data : NULL;
  g->interleaved = attr_int(launch, "rotary_interleaved", 0) != 0;
  g->rotating = g->rotated ? 2 * grouped_in(g, COS)->dims[1] : 0;
}

static kd_status put_new(grouped *g) {
  int64_t numbers = (g->heads + 2 * g->groups) * g->size;
  cpu_host->parallel_for(cpu_host, g->batch * g->rows, 20000 / numbers + 1,
                         put_rows, g);
  return g->status == KD_OK
             ? KD_OK
             : FAIL(KD_INVALID_ARGUMENT,
                    "a position lies outside of cos_cache, which has %lld",
                    (long long)grouped_in(g, COS)->dims[0]);
}

/* Of each head; smooth_softmax is one of 0 for all. *out_own is to be released. */
static kd_status read_sinks(grouped *g, float **out_own) {
  uint64_t bytes = (uint64_t)g->heads * sizeof(float);
  *out_own = NULL;
  if (kd_has_input(g->launch, SINK)) {
    g->sinks = grouped_in(g, SINK)->data;
  } else if (attr_int(g->launch, "smooth_softmax", -1) > 0) {
    *out_own = cpu_host->allocate(cpu_host, bytes, 0);
    if (!*out_own)
      return FAIL(KD_OUT_OF_MEMORY, "no %llu bytes for sinks",
                  (unsigned long long)bytes);
    memset(*out_own, 0, bytes);
    g->sinks = *out_own;
  }
  return KD_OK;
}

static kd_status grouped_run(grouped *g) {
  kd_status status = check_lengths(g);
  if (status == KD_OK) status = open_cache(g, PRESENT_KEY, &g->key);
  if (status == KD_OK) status = open_cache(g, PRESENT_VALUE, &g->value);
  if (status != KD_OK) return status;
  take_past(g, PAST_KEY, g->key.data);
  take_past(g, PAST_VALUE, g->value.data);
  if (!kd_elements(&g->launch->outputs[OUTPUT])) return KD_OK;
  status = put_new(g);
  for (int64_t b = 0; b < g->batch && status == KD_OK; b++)
    status = attend(g, b);
  return status;
}

/* Q rotated; a size of queries that have keys and values behind them is enough, too. */
CPU_WORKSPACE(grouped) {
  return attr_int(launch, "do_rotary", 0) ? launch->inputs[QUERY].size : 0;
}

CPU_KERNEL(cpu_run_grouped) {
  grouped g = {.launch = launch};
  float *sinks = NULL;
  read_shapes(&g);
  kd_status status = read_sinks(&g, &sinks);
  if (status == KD_OK) status = grouped_run(&g);
  cpu_host->release(cpu_host, sinks);
  cpu_host->release(cpu_host, g.key.own);
  cpu_host->release(cpu_host, g.value.own);
  return status;
}
