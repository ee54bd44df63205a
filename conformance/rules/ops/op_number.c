/* op_number.c - what ops make of numbers: products of each length, overflow, rounding, zeros,
 * ties. */
#include <math.h>
#include <stdarg.h>

#include "rules/ops/cases.h"
#include "rules/ops/op.h"
#include "rules/rules.h"

/* Adds an input of zeros; the caller fills it. */
static value *op_number_add_input(kc_op_case *one, kd_dtype dtype,
                                  uint32_t rank, const int64_t *dims) {
  return kc_case_add(one, value_make(dtype, rank, dims));
}

static value *add_items(kc_op_case *one, kd_dtype dtype, int64_t count,
                        const real *items) {
  value *in = op_number_add_input(one, dtype, 1, &count);
  memcpy(in->x, items, (size_t)count * sizeof *items);
  return in;
}

static void add_attr(kc_op_case *one, keel_attr attr) {
  one->op.attrs[one->op.attr_count++] = attr;
}

/* The case of that name, on all definitions that fit; and frees it. */
static void try_case(kc_op_case *one, const char *format, ...) KD_PRINTF(2, 3);

static void try_case(kc_op_case *one, const char *format, ...) {
  char name[128];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  if (op_taken(one, false) && kc_case("%s", name)) op_run_defs(one, false);
  kc_case_free(one);
}

/* ---- products of each length ----------------------------------------------------------- */

static const int64_t lengths[] = {1, 2, 3, 7, 16, 64, 256, 1000, 1024, 4096};

static void matmul_lengths(kc_probe probe, const char *name) {
  op_begin();
  static const kd_dtype types[] = {KD_F32, KD_F64, KD_F16, KD_BF16};
  for (size_t t = 0; t < KC_COUNT_OF(types); t++)
    for (size_t k = 0; k < KC_COUNT_OF(lengths); k++) {
      int64_t a[2] = {4, lengths[k]}, b[2] = {lengths[k], 6};
      if (!op_wanted("MatMul", types[t])) continue;
      kc_random random =
          op_named_seed("MatMul", types[t], (uint32_t)lengths[k], name);
      kc_op_case one = {.op = {.name = "MatMul", .out_count = 1}};
      op_number_add_input(&one, types[t], 2, a);
      op_number_add_input(&one, types[t], 2, b);
      /* partial sums of 4096 products stay exact in f32, those of 64 in f16 */
      int64_t most = types[t] == KD_F16 || types[t] == KD_BF16 ? 1 : 8;
      for (int i = 0; i < 2; i++)
        for (int64_t e = 0; e < one.own[i]->count; e++) {
          uint64_t bits = kc_next(&random);
          one.own[i]->x[e] =
              probe == KC_PROBE_INTS
                  ? (real)((int64_t)(bits % (uint64_t)(2 * most + 1)) - most)
                  : dtype_round((real)(int64_t)bits * 0x1p-63L, types[t]);
        }
      try_case(&one, "op=MatMul,dtype=%s,k=%lld,probe=%s",
               kd_dtype_name(types[t]), (long long)lengths[k], name);
    }
}

void op_matmul_ints(void) {
  matmul_lengths(KC_PROBE_INTS, "ints");
}

/* A factor of a product rounded as tensor cores do. */
static value *fewer_bits(const value *from, int bits) {
  value *made = value_copy(from);
  for (int64_t i = 0; i < made->count; i++) {
    int e = 0;
    real m = frexpl(made->x[i], &e);
    made->x[i] = ldexpl(rintl(ldexpl(m, bits)), e - bits);
  }
  return made;
}

/* How many bits a product's factors seem to have had; 0: nothing that explains it. */
static int op_number_bits_of(const kc_op *op, const kc_node *node,
                             const value *got, const numerics *within) {
  static const int kept[] = {11, 8};
  int found = 0;
  for (size_t i = 0; i < KC_COUNT_OF(kept) && !found; i++) {
    kc_op rounded = *op;
    value *a = fewer_bits(op->in[0], kept[i]),
          *b = fewer_bits(op->in[1], kept[i]);
    value *want[KC_PORTS] = {0};
    rounded.in[0] = a;
    rounded.in[1] = b;
    if (kc_reference(&rounded, node, want) && kc_near(want[0], got, within))
      found = kept[i];
    kc_values_free(want, 1);
    value_free(a);
    value_free(b);
  }
  return found;
}

static void product_of(const kc_op *op, kc_node *node, const kd_kernel_def *def,
                       const value *want) {
  kc_run *run = kc_run_of(node, def, op, &kc_plain);
  kc_ok(kc_run_now(run), "run");
  value *got = kc_run_output(run, 0);
  numerics within = kc_numerics(def, KD_F32);
  int bits = kc_near(want, got, &within)
                 ? 24
                 : op_number_bits_of(op, node, got, &within);
  if (bits == 11 || bits == 8)
    kc_check(false,
             "the product is as if its factors had %d bits instead of 24: %s",
             bits,
             bits == 11 ? "tensor cores in TF32? KD_KERNEL_TF32 declares them"
                        : "tensor cores in BF16?");
  else
    kc_compare(want, got, &within, "the product");
  value_free(got);
  kc_run_free(run);
}

/* Sizes that fast paths take, and factors whose last bits are lost in fewer: 1 + j 2^-23,
 * with j below half of a step of 11 bits. */
static void matmul_fast_paths(void) {
  static const int64_t sizes[][4] = {
      {1, 8, 8, 8},     {1, 16, 16, 16}, {1, 64, 64, 64},   {3, 64, 64, 64},
      {1, 16, 32, 128}, {2, 32, 64, 16}, {1, 128, 256, 512}};
  for (size_t s = 0; s < KC_COUNT_OF(sizes); s++) {
    const int64_t *z = sizes[s];
    int64_t a[3] = {z[0], z[1], z[3]}, b[3] = {z[0], z[3], z[2]};
    uint32_t rank = z[0] > 1 ? 3 : 2, cut = rank == 3 ? 0 : 1;
    if (!op_wanted("MatMul", KD_F32) || (kc.quick && s == 6)) continue;
    kc_random random = op_named_seed("MatMul", KD_F32, (uint32_t)s, "bits");
    kc_op_case one = {.op = {.name = "MatMul", .out_count = 1}};
    op_number_add_input(&one, KD_F32, rank, a + cut);
    op_number_add_input(&one, KD_F32, rank, b + cut);
    for (int i = 0; i < 2; i++)
      for (int64_t e = 0; e < one.own[i]->count; e++)
        one.own[i]->x[e] =
            1 + (real)(2049 + kc_below(&random, 2046)) * 0x1p-23L;
    kc_node *node = kc_node_make(&one.op, NULL, 0);
    value *want[KC_PORTS] = {0};
    if (node && op_taken(&one, false) &&
        kc_case("op=MatMul,dtype=f32,m=%lld,n=%lld,k=%lld,rank=%u,probe=bits",
                (long long)z[1], (long long)z[2], (long long)z[3],
                (unsigned)rank) &&
        kc_reference(&one.op, node, want)) {
      for (uint32_t d = 0; d < kp.kernel_count; d++)
        if (kc_def_fits(&kp.kernels[d], node) &&
            kc_supports(&kp.kernels[d], node) == KD_OK)
          product_of(&one.op, node, &kp.kernels[d], want[0]);
    }
    kc_values_free(want, 1);
    kc_node_free(node);
    kc_case_free(&one);
  }
}

void op_matmul_full(void) {
  matmul_lengths(KC_PROBE_FULL, "full");
  matmul_fast_paths();
}

/* A case of one input. */
static kc_op_case one_input(const char *op, kd_dtype dtype, const double *items,
                            int64_t count) {
  const char *colons = strstr(op, "::");
  kc_op_case one = {.op = {.domain = colons ? "keel" : NULL,
                           .name = colons ? colons + 2 : op,
                           .out_count = 1}};
  value *in = op_number_add_input(&one, dtype, 1, &count);
  for (int64_t i = 0; i < count; i++)
    in->x[i] = dtype_round(items[i], dtype);
  return one;
}

/* Where a formula that reads well loses its digits: 1 + x or exp(x) - 1 near 0, exp(-x)
 * far from it, a sum of exponentials. */
static void near_and_far(void) {
  static const struct {
    const char *op;
    double centre, far; /* the ends of where it is tried: centre - far, + far */
  } ops[] = {
      {"Acosh", 1, 0},  {"Asinh", 0, 100},      {"Atanh", 0, 0},
      {"Celu", 0, 100}, {"keel::Cbrt", 0, 100}, {"Elu", 0, 100},
      {"Erf", 0, 100},  {"keel::Expm1", 0, 80}, {"Gelu", 0, 12},
      {"Log", 1, 0},    {"keel::Log1p", 0, 0},  {"LogSoftmax", 0, 10000},
      {"Mish", 0, 80},  {"Selu", 0, 100},       {"Sigmoid", 0, 100},
      {"Sinh", 0, 80},  {"Softmax", 0, 80},     {"Softplus", 0, 100},
      {"Swish", 0, 80}, {"Tanh", 0, 100},       {"ReduceLogSumExp", 0, 10000}};
  static const kd_dtype types[] = {KD_F32, KD_F64, KD_F16};
  double items[128];
  for (size_t o = 0; o < KC_COUNT_OF(ops); o++)
    for (size_t t = 0; t < KC_COUNT_OF(types); t++) {
      int64_t count = 0;
      for (int e = 1; e < 24; e++) {
        items[count++] = ops[o].centre + ldexp(1.25, -e);
        if (strcmp(ops[o].op, "Acosh") != 0)
          items[count++] = ops[o].centre - ldexp(1.25, -e);
      }
      for (int k = 1; k <= 32 && ops[o].far > 0; k++) {
        items[count++] = ops[o].centre + ops[o].far * k / 32;
        items[count++] = ops[o].centre - ops[o].far * k / 32;
      }
      kc_op_case one = one_input(ops[o].op, types[t], items, count);
      if (op_wanted(one.op.name, types[t]))
        try_case(&one, "op=%s,dtype=%s,where=digits", one.op.name,
                 kd_dtype_name(types[t]));
      else
        kc_case_free(&one);
    }
}

/* One-hot rows: each output names the element that it must come from. */
void op_structure(void) {
  op_begin();
  for (int64_t n = 1; n <= 40; n += 13) {
    int64_t dims[2] = {n, n};
    kc_op_case one = {.op = {.name = "MatMul", .out_count = 1}};
    value *hot = op_number_add_input(&one, KD_F32, 2, dims);
    value *named = op_number_add_input(&one, KD_F32, 2, dims);
    for (int64_t i = 0; i < n; i++) {
      hot->x[i * n + (i * 7 + 3) % n] = 1;
      for (int64_t j = 0; j < n; j++)
        named->x[i * n + j] = i * 100 + j;
    }
    try_case(&one, "op=MatMul,dtype=f32,n=%lld", (long long)n);
  }
  /* a large mean: a variance of squares less the square loses all of it */
  static const char *const norms[] = {"LayerNormalization",
                                      "InstanceNormalization",
                                      "MeanVarianceNormalization"};
  for (size_t k = 0; k < KC_COUNT_OF(norms); k++) {
    int64_t dims[3] = {1, 2, 64};
    kc_random random = op_named_seed(norms[k], KD_F32, 0, "mean");
    kc_op_case one = {.op = {.name = norms[k], .out_count = 1}};
    value *x = op_number_add_input(&one, KD_F32, 3, dims);
    for (int64_t i = 0; i < x->count; i++)
      x->x[i] = dtype_round(1000 + (real)(int64_t)kc_next(&random) * 0x1p-63L,
                            KD_F32);
    uint32_t inputs = k == 0 ? 2 : k == 1 ? 3 : 1;
    int64_t of_scale[1] = {k == 0 ? 64 : 2};
    for (uint32_t i = 1; i < inputs; i++) {
      value *more = op_number_add_input(&one, KD_F32, 1, of_scale);
      for (int64_t e = 0; e < more->count; e++)
        more->x[e] = i == 1;
    }
    int64_t axes[1] = {2};
    if (k == 2)
      add_attr(
          &one,
          (keel_attr){
              .name = "axes", .kind = KD_ATTR_INTS, .count = 1, .ints = axes});
    try_case(&one, "op=%s,dtype=f32,mean=1000", norms[k]);
  }
  int64_t many[2] = {3, 50};
  kc_op_case one = {.op = {.name = "Softmax", .out_count = 1}};
  value *x = op_number_add_input(&one, KD_F32, 2, many);
  for (int64_t i = 0; i < x->count; i++)
    x->x[i] = i < 50 ? 88.5L : i < 100 ? -500 : 0;
  try_case(&one, "op=Softmax,dtype=f32,all=equal");
  near_and_far();
}

/* ---- overflow, rounding, zeros, ties ----------------------------------------------------- */

void op_overflow(void) {
  static const double items[] = {65504, 65000, -65504, 60000, 1, 3e38, -3e38};
  static const char *const ops[] = {"Add", "Mul", "Exp", "Sum"};
  static const kd_dtype types[] = {KD_F16, KD_BF16, KD_F32};
  op_begin();
  for (size_t o = 0; o < KC_COUNT_OF(ops); o++)
    for (size_t t = 0; t < KC_COUNT_OF(types); t++) {
      if (!op_wanted(ops[o], types[t])) continue;
      kc_op_case one = one_input(ops[o], types[t], items, KC_COUNT_OF(items));
      if (o != 2) add_items(&one, types[t], KC_COUNT_OF(items), one.own[0]->x);
      try_case(&one, "op=%s,dtype=%s", ops[o], kd_dtype_name(types[t]));
    }
}

void op_cast(void) {
  /* ties of f32 to bf16 and f16, and what is cut on the way to integers */
  static const double items[] = {
      1.00390625,    1.01171875,    1.0009765625 + 1.0 / 2048,
      1.00048828125, 1.00146484375, 2.5,
      3.5,           -2.5,          -1.5,
      0.5,           65519,         65504,
      1e-8,          100.99,        -100.99,
      3.0000001,     255,           127.5};
  static const kd_dtype to[] = {KD_BF16, KD_F16, KD_F32,  KD_F64,
                                KD_I32,  KD_I64, KD_BOOL, KD_I16};
  static const kd_dtype from[] = {KD_F32, KD_F64};
  op_begin();
  for (size_t f = 0; f < KC_COUNT_OF(from); f++)
    for (size_t t = 0; t < KC_COUNT_OF(to); t++) {
      if (!op_wanted("Cast", from[f])) continue;
      kc_op_case one = one_input("Cast", from[f], items, KC_COUNT_OF(items));
      if (to[t] == KD_I16)
        for (int64_t i = 0; i < one.own[0]->count; i++)
          if (fabsl(one.own[0]->x[i]) > 30000) one.own[0]->x[i] = 7;
      add_attr(&one,
               (keel_attr){.name = "to", .kind = KD_ATTR_INT, .i = to[t]});
      try_case(&one, "op=Cast,dtype=%s,to=%s", kd_dtype_name(from[f]),
               kd_dtype_name(to[t]));
    }
}

/* All codes of a type, packed, and as many more that the last byte is not full. */
static kc_op_case all_codes(kd_dtype dtype) {
  unsigned bits = kd_dtype_bits(dtype);
  int64_t count = (1 << bits) + (bits < 8);
  kc_op_case one = {.op = {.name = "Cast", .out_count = 1}};
  value *in = op_number_add_input(&one, dtype, 1, &count);
  for (int64_t i = 0; in && i < count; i++) {
    uint8_t byte = (uint8_t)(i & ((1 << bits) - 1));
    in->x[i] = dtype_load(&byte, dtype, 0);
  }
  return one;
}

void op_small(void) {
  /* ties of each format, what is below its least and beyond its largest */
  static const double items[] = {
      0,      1,       1.5,     1.25,    1.75,    2.5,      3.5,     5,
      7,      9,       15,      17,      19,      100,      232,     240,
      248,    447,     448,     464,     465,     1e4,      57344,   61440,
      61441,  1e6,     0.5,     0.25,    0.75,    0x1p-9,   0x1p-10, 0x1.8p-10,
      0x1p-6, 0x1p-16, 0x3p-18, 0x1p-18, 0x1p-40, 0x1p-140, 3e38,    -1,
      -2.5,   -3.5,    -0x1p-9, -500,    -1e6,    1.0625,   1.1875};
  static const kd_dtype types[] = {
      KD_F8E4M3FN, KD_F8E4M3FNUZ, KD_F8E5M2, KD_F8E5M2FNUZ, KD_F8E8M0,
      KD_F4E2M1,   KD_U4,         KD_I4,     KD_U2,         KD_I2};
  op_begin();
  for (size_t t = 0; t < KC_COUNT_OF(types); t++) {
    const kd_dtype type = types[t];
    if (!op_wanted("Cast", type)) continue;
    kc_op_case to = one_input("Cast", KD_F32, items, KC_COUNT_OF(items));
    for (int64_t i = 0; i < to.own[0]->count; i++)
      if (type == KD_F8E8M0 && to.own[0]->x[i] <= 0)
        to.own[0]->x[i] = 0.3L; /* there is nothing of the kind */
    add_attr(&to, (keel_attr){.name = "to", .kind = KD_ATTR_INT, .i = type});
    try_case(&to, "op=Cast,dtype=f32,to=%s", kd_dtype_name(type));
    kc_op_case from = all_codes(type);
    add_attr(&from,
             (keel_attr){.name = "to", .kind = KD_ATTR_INT, .i = KD_F32});
    try_case(&from, "op=Cast,dtype=%s,to=f32", kd_dtype_name(type));
  }
}

void op_signed_zero(void) {
  static const double items[] = {-0.0, 0.0};
  static const char *const ops[] = {"Neg", "Floor", "Ceil", "Sqrt",
                                    "Sin", "Tanh",  "Abs",  "Round"};
  op_begin();
  for (size_t o = 0; o < KC_COUNT_OF(ops); o++) {
    if (!op_wanted(ops[o], KD_F32)) continue;
    kc_op_case one = one_input(ops[o], KD_F32, items, 2);
    if (op_taken(&one, false) && kc_case("op=%s,dtype=f32", ops[o])) {
      kc_node *node = kc_node_make(&one.op, NULL, 0);
      const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
      kc_run *run = NULL;
      value *want[KC_PORTS] = {0};
      if (def && kc_reference(&one.op, node, want) &&
          kc_run_make(node, def, &one.op, &kc_plain, &run) == KD_OK &&
          kc_run_now(run) == KD_OK) {
        value *got = kc_run_output(run, 0);
        for (int i = 0; i < 2; i++)
          kc_check((def->flags & KD_KERNEL_FLUSH) ||
                       !signbit(got->x[i]) == !signbit(want[0]->x[i]),
                   "%s(%c0) is %c0", ops[o], i ? '+' : '-',
                   signbit(got->x[i]) ? '-' : '+');
        value_free(got);
      }
      kc_values_free(want, 1);
      kc_run_free(run);
      kc_node_free(node);
    }
    kc_case_free(&one);
  }
}

void op_ties(void) {
  static const double items[] = {3, 1, 3, 2, 3, 1, 1, 3};
  op_begin();
  for (int k = 0; k < 4; k++) {
    static const char *const ops[] = {"ArgMax", "ArgMin", "ArgMax", "TopK"};
    static const real six = 6;
    if (!op_wanted(ops[k], KD_F32)) continue;
    kc_op_case one = one_input(ops[k], KD_F32, items, 8);
    if (k == 2)
      add_attr(&one,
               (keel_attr){
                   .name = "select_last_index", .kind = KD_ATTR_INT, .i = 1});
    if (k == 3) {
      add_items(&one, KD_I64, 1, &six);
      one.op.out_count = 2;
    }
    try_case(&one, "op=%s,dtype=f32,last=%d", ops[k], k == 2);
  }
}

/* Ops that order, sum and place integers, on neighbours that are one double. */
static void near_integers(void) {
  static const real items[] = {0x1p62L + 1, 0x1p62L,     0x1p62L + 3,
                               7,           0x1p62L + 2, 0x1p53L + 1};
  static const real axis = 0, four = 4, places[] = {2, 0, 2, 4};
  static const real added[] = {0x1p53L + 1, 0x1p61L + 1, 7, 0x1p60L + 1};
  static const struct {
    const char *op;
    enum { ALONE, AXIS, K, PAIR, PLACES } more;
    const char *reduction;
  } cases[] = {{"ArgMax", ALONE, NULL},
               {"ArgMin", ALONE, NULL},
               {"ReduceMax", ALONE, NULL},
               {"ReduceMin", ALONE, NULL},
               {"ReduceL1", ALONE, NULL},
               {"CumSum", AXIS, NULL},
               {"TopK", K, NULL},
               {"Max", PAIR, NULL},
               {"Min", PAIR, NULL},
               {"Less", PAIR, NULL},
               {"Equal", PAIR, NULL},
               {"ScatterElements", PLACES, "none"},
               {"ScatterElements", PLACES, "add"},
               {"ScatterElements", PLACES, "max"},
               {"ScatterElements", PLACES, "min"}};
  static const kd_dtype types[] = {KD_I64, KD_U64};
  for (size_t c = 0; c < KC_COUNT_OF(cases); c++)
    for (size_t t = 0; t < KC_COUNT_OF(types); t++) {
      kc_op_case one = {.op = {.name = cases[c].op, .out_count = 1}};
      real others[6];
      bool sums = cases[c].more == AXIS || !strcmp(cases[c].op, "ReduceL1");
      if (!op_wanted(cases[c].op, types[t])) continue;
      for (int64_t i = 0; i < 6; i++)
        others[i] = items[5 - i];
      if (sums) /* two whose sum is in range */
        add_items(&one, types[t], 2, items + 4);
      else
        add_items(&one, types[t], 6, items);
      if (cases[c].more == AXIS) add_items(&one, KD_I64, 1, &axis);
      if (cases[c].more == K) add_items(&one, KD_I64, 1, &four);
      if (cases[c].more == K) one.op.out_count = 2;
      if (cases[c].more == PAIR) add_items(&one, types[t], 6, others);
      if (cases[c].more == PLACES) {
        add_items(&one, KD_I64, 4, places);
        bool adds = !strcmp(cases[c].reduction, "add");
        add_items(&one, types[t], 4, adds ? added : others);
        add_attr(&one, (keel_attr){.name = "reduction",
                                   .kind = KD_ATTR_STRING,
                                   .s = cases[c].reduction});
      }
      try_case(&one, "op=%s,dtype=%s,near", cases[c].op,
               kd_dtype_name(types[t]));
    }
}

void op_integers(void) {
  static const double items[] = {1, 7, 100, 5, 13, 2, 3, 11};
  static const kd_dtype types[] = {KD_I32, KD_I64, KD_U8, KD_I8};
  static const char *const ops[] = {"Add", "Sub", "Mul", "Div", "Mod"};
  op_begin();
  for (size_t o = 0; o < KC_COUNT_OF(ops); o++)
    for (size_t t = 0; t < KC_COUNT_OF(types); t++) {
      if (!op_wanted(ops[o], types[t])) continue;
      kc_op_case one = one_input(ops[o], types[t], items, 8);
      const value *x = one.own[0];
      value *y = add_items(&one, types[t], 8, x->x);
      for (int i = 0; i < 8; i++)
        y->x[i] = x->x[7 - i];
      if (types[t] == KD_I64) x->x[0] = 4611686018427387905.0L;
      if (types[t] != KD_I64) y->x[7] = dtype_max(types[t]);
      try_case(&one, "op=%s,dtype=%s", ops[o], kd_dtype_name(types[t]));
    }
  near_integers();
}
