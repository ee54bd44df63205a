/* gates_typed.h - gates.c for elements of type T, called TYPE; FN(exp) is expf or exp.
 *
 *   UNITS      of a block;  LANES, WIDTH  elements of a vector, and of two
 *   LIT(x)     x as a T
 *   EACH(e)    the body of a case: each x of v[UNITS] becomes the expression e */

#define UNITS  ((int64_t)(CPU_BLOCK_BYTES / sizeof(T)))
#define VEC    NAMED(vector)
#define LANES  ((int64_t)(VECTOR / sizeof(T)))
#define WIDTH  (2 * LANES)
#define LIT(x) ((T)(x))

typedef T VEC
    __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias));

static void NAMED(pack)(const void *from, int64_t gates, int64_t hidden,
                        int64_t block, void *to) {
  int64_t first = block * UNITS;
  int64_t count = hidden - first < UNITS ? hidden - first : UNITS;
  if (count < UNITS)
    memset(to, 0, (size_t)(gates * hidden * UNITS) * sizeof(T));
  for (int64_t g = 0; g < gates; g++) {
    const T *rows = (const T *)from + (g * hidden + first) * hidden;
    T *panels = (T *)to + g * hidden * UNITS;
    for (int64_t k = 0; k < hidden; k += 16) {
      int64_t end = k + 16 < hidden ? k + 16 : hidden;
      for (int64_t j = 0; j < count; j++) {
        T *panel = panels + j / WIDTH * WIDTH * hidden + j % WIDTH;
        for (int64_t p = k; p < end; p++)
          panel[p * WIDTH] = rows[j * hidden + p];
      }
    }
  }
}

#define AHEAD 16 /* elements of k whose weights come into the first cache */

/* R items' states, `k` apart, times the panels of `units`; results are `step` apart. */
#define TIMES(R, V)                                                           \
  __attribute__((noinline)) static void NAMED(times_##R##_##V)(               \
      int64_t k, const T *a, const T *b, T *out, int64_t step,                \
      int64_t units) {                                                        \
    for (int64_t u = 0; u < units; u += V * LANES) {                          \
      VEC sum[R][V];                                                          \
      const T *panel = b + u * k;                                             \
      UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++)   \
          sum[i][v] = (VEC){0};                                               \
      for (int64_t p = 0; p < k; p++) {                                       \
        VEC weights[V];                                                       \
        UNROLL for (int v = 0; v < V; v++) weights[v] =                       \
            *(const VEC *)(panel + v / 2 * k * WIDTH + p * WIDTH +            \
                           v % 2 * LANES);                                    \
        UNROLL for (int v = 0; v < V && R < 3; v++) __builtin_prefetch(       \
            panel + v / 2 * k * WIDTH + (p + AHEAD) * WIDTH + v % 2 * LANES); \
        UNROLL for (int v = 0; v < V && R > 1; v++) HOLD(weights[v]);         \
        UNROLL for (int i = 0; i < R; i++) {                                  \
          const T x = a[i * k + p];                                           \
          UNROLL for (int v = 0; v < V; v++) sum[i][v] += x * weights[v];     \
        }                                                                     \
      }                                                                       \
      UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++) * \
          (VEC *)(out + i * step + u + v * LANES) = sum[i][v];                \
    }                                                                         \
  }
FULL(TIMES)
#ifdef PAIR
PAIR(TIMES)
#endif
#undef TIMES

/* How many of `items` the next product takes. */
static int64_t NAMED(height)(int64_t items) {
#define TRY(R, V) \
  if (items >= R) return R;
  FULL(TRY)
#undef TRY
  return 1;
}

/* Of so many gates, whose panels follow each other. Few items would wait for their own sums:
 * they go by two gates at once. */
static void NAMED(times)(int64_t items, int64_t k, const T *a, const T *b,
                         T *out, int64_t step, int64_t gates) {
#define TRY(R, V)                                              \
  if (items == R) {                                            \
    NAMED(times_##R##_##V)(k, a, b, out, step, gates * UNITS); \
    return;                                                    \
  }
#ifdef PAIR
  if (gates % 2 == 0) {
    PAIR(TRY)
  }
#endif
  FULL(TRY)
#undef TRY
}

/* ---- activations ------------------------------------------------------------- */

#define EACH(expression)                \
  for (int64_t i = 0; i < UNITS; i++) { \
    const T x = v[i];                   \
    v[i] = (expression);                \
  }                                     \
  break

static void NAMED(apply)(const cpu_cell *c, const cpu_gate *gate, T *v) {
  const T a = (T)gate->alpha, b = (T)gate->beta, clip = (T)c->clip;
  if (clip > 0)
    for (int64_t i = 0; i < UNITS; i++)
      v[i] = v[i] > -clip ? v[i] < clip ? v[i] : clip : -clip;
  switch (gate->which) {
    case CPU_AFFINE:
      EACH(a * x + b);
    case CPU_ELU:
      EACH(x < 0 ? a * FN(expm1)(x) : x);
    case CPU_HARD_SIGMOID:
      EACH(a * x + b > LIT(1) ? LIT(1) : a * x + b > 0 ? a * x + b : LIT(0));
    case CPU_LEAKY_RELU:
      EACH(x < 0 ? a * x : x);
    case CPU_RELU:
      EACH(x > 0 ? x : LIT(0));
    case CPU_SCALED_TANH:
      EACH(a * FN(tanh)(b * x));
    case CPU_SIGMOID:
      EACH((x < 0 ? FN(exp)(-FN(fabs)(x)) : LIT(1)) /
           (LIT(1) + FN(exp)(-FN(fabs)(x))));
    case CPU_SOFTPLUS:
      EACH((x > 0 ? x : LIT(0)) + FN(log1p)(FN(exp)(-FN(fabs)(x))));
    case CPU_SOFTSIGN:
      EACH(x / (LIT(1) + FN(fabs)(x)));
    case CPU_TANH:
      EACH(FN(tanh)(x));
    default:
      EACH(x >= a ? x : LIT(0));
  }
}

/* ---- units of one item ------------------------------------------------------------ */

/* Units of a block, in memory of [batch, hidden]. */
typedef struct NAMED(place) {
  int64_t from, count, block, row; /* row: of what the inputs give */
} NAMED(place);

/* Whole blocks by moves, without a call. */
static inline void NAMED(load)(const void *from, NAMED(place) p, T *to) {
  const T *here = (const T *)from + p.from;
  if (p.count == UNITS) {
    memcpy(to, here, CPU_BLOCK_BYTES);
  } else {
    memset(to, 0, CPU_BLOCK_BYTES);
    memcpy(to, here, (size_t)p.count * sizeof(T));
  }
}

static inline void NAMED(save)(void *to, NAMED(place) p, const T *from) {
  if (p.count == UNITS)
    memcpy((T *)to + p.from, from, CPU_BLOCK_BYTES);
  else
    memcpy((T *)to + p.from, from, (size_t)p.count * sizeof(T));
}

/* Where units lie, if all of a block are there; else a copy that is filled up. */
static inline const T *NAMED(units_at)(const void *from, NAMED(place) p,
                                       T *copy) {
  if (p.count == UNITS) return (const T *)from + p.from;
  NAMED(load)(from, p, copy);
  return copy;
}

/* What a gate gets from the inputs and biases. */
static inline void NAMED(add_x)(const cpu_cell *c, NAMED(place) p, int64_t gate,
                                T *restrict z) {
  T copy[CPU_BLOCK_BYTES / sizeof(T)];
  const T *bias =
      (const T *)c->bias + (p.block * (c->gates + 1) + gate) * UNITS;
  p.from = p.row * c->gates * c->hidden + gate * c->hidden + p.block * UNITS;
  const T *x = NAMED(units_at)(c->from_x, p, copy);
  for (int64_t i = 0; i < UNITS; i++)
    z[i] += x[i] + bias[i];
}

static void NAMED(peep)(const cpu_cell *c, NAMED(place) p, int64_t gate,
                        const T *cell, T *z) {
  if (!c->peep) return;
  const T *weights = (const T *)c->peep + (p.block * 3 + gate) * UNITS;
  for (int64_t i = 0; i < UNITS; i++)
    z[i] += weights[i] * cell[i];
}

/* Gates in order: in, out, forget, fresh. */
static void NAMED(lstm)(const cpu_cell *c, NAMED(place) p,
                        T (*z)[CPU_BLOCK_BYTES / sizeof(T)]) {
  T cell[CPU_BLOCK_BYTES / sizeof(T)];
  NAMED(load)(c->cell, p, cell);
  for (int64_t g = 0; g < 4; g++)
    NAMED(add_x)(c, p, g, z[g]);
  NAMED(peep)(c, p, 0, cell, z[0]);
  NAMED(apply)(c, &c->f, z[0]);
  NAMED(peep)(c, p, 2, cell, z[2]);
  if (!c->coupled) NAMED(apply)(c, &c->f, z[2]);
  NAMED(apply)(c, &c->g, z[3]);
  for (int64_t i = 0; i < UNITS; i++)
    cell[i] =
        (c->coupled ? LIT(1) - z[0][i] : z[2][i]) * cell[i] + z[0][i] * z[3][i];
  NAMED(peep)(c, p, 1, cell, z[1]);
  NAMED(apply)(c, &c->f, z[1]);
  NAMED(save)(c->cell, p, cell);
  NAMED(apply)(c, &c->h, cell);
  for (int64_t i = 0; i < UNITS; i++)
    z[1][i] *= cell[i];
  NAMED(save)(c->after, p, z[1]);
}

/* The update gate, and the state as the reset gate lets it through. */
static void NAMED(gru_first)(const cpu_cell *c, NAMED(place) p,
                             T (*z)[CPU_BLOCK_BYTES / sizeof(T)]) {
  T state[CPU_BLOCK_BYTES / sizeof(T)];
  NAMED(load)(c->before, p, state);
  for (int64_t g = 0; g < 2; g++) {
    NAMED(add_x)(c, p, g, z[g]);
    NAMED(apply)(c, &c->f, z[g]);
  }
  NAMED(save)(c->update, p, z[0]);
  for (int64_t i = 0; i < UNITS; i++)
    z[1][i] *= state[i];
  NAMED(save)(c->gated, p, z[1]);
}

/* Gates in order: update, reset, fresh; the first two are done where `gated`. */
static void NAMED(gru)(const cpu_cell *c, NAMED(place) p, bool gated,
                       T (*z)[CPU_BLOCK_BYTES / sizeof(T)]) {
  T state[CPU_BLOCK_BYTES / sizeof(T)];
  const T *bias = (const T *)c->bias + (p.block * 4 + 3) * UNITS;
  NAMED(load)(c->before, p, state);
  if (gated) NAMED(load)(c->update, p, z[0]);
  for (int64_t g = 0; g < 2 && !gated; g++) {
    NAMED(add_x)(c, p, g, z[g]);
    NAMED(apply)(c, &c->f, z[g]);
  }
  for (int64_t i = 0; i < UNITS; i++)
    z[2][i] = (z[2][i] + bias[i]) * (gated ? LIT(1) : z[1][i]);
  NAMED(add_x)(c, p, 2, z[2]);
  NAMED(apply)(c, &c->g, z[2]);
  for (int64_t i = 0; i < UNITS; i++)
    z[2][i] = (LIT(1) - z[0][i]) * z[2][i] + z[0][i] * state[i];
  NAMED(save)(c->after, p, z[2]);
}

static void NAMED(unit)(const cpu_cell *c, NAMED(place) p, bool first,
                        T (*z)[CPU_BLOCK_BYTES / sizeof(T)]) {
  if (c->kind == CPU_LSTM) {
    NAMED(lstm)(c, p, z);
  } else if (c->kind == CPU_GRU && first) {
    NAMED(gru_first)(c, p, z);
  } else if (c->kind == CPU_GRU) {
    NAMED(gru)(c, p, !c->linear_first, z);
  } else {
    NAMED(add_x)(c, p, 0, z[0]);
    NAMED(apply)(c, &c->f, z[0]);
    NAMED(save)(c->after, p, z[0]);
  }
}

static void NAMED(step)(const cpu_cell *c, int64_t block, bool first) {
  T z[MOST][4][CPU_BLOCK_BYTES / sizeof(T)];
  bool gated = c->kind == CPU_GRU && !c->linear_first && !first;
  int64_t gate = gated ? 2 : 0, end = first ? 2 : c->gates;
  const T *state = gated ? c->gated : c->before;
  int64_t left = c->hidden - block * UNITS;
  NAMED(place) p = {.count = left < UNITS ? left : UNITS, .block = block};
  for (int64_t item = 0, h; item < c->batch; item += h) {
    h = NAMED(height)(c->batch - item);
    NAMED(times)
    (h, c->hidden, state + item * c->hidden,
     (const T *)c->weights + (block * c->gates + gate) * c->hidden * UNITS,
     z[0][gate], 4 * UNITS, end - gate);
    for (int64_t i = 0; i < h; i++) {
      p.from = (item + i) * c->hidden + block * UNITS;
      p.row = c->rows[item + i];
      if (p.row >= 0)
        NAMED(unit)(c, p, first, z[i]);
      else if (!first)
        NAMED(save)(c->after, p, (const T *)c->before + p.from);
    }
  }
}

#undef UNITS
#undef WIDTH
#undef VEC
#undef LANES
#undef LIT
#undef EACH
