/* op.c - what kernels compute, against the reference. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <unistd.h>

#include "rules/ops/cases.h"
#include "rules/ops/op.h"
#include "rules/rules.h"
#include "suite/channel.h"
#include "system/save.h"

/* ---- walking over what the plugin has ----------------------------------------------- */

static const kd_dtype tried[] = {KD_F32, KD_F64, KD_F16,  KD_BF16, KD_I8,
                                 KD_U8,  KD_I16, KD_U16,  KD_I32,  KD_U32,
                                 KD_I64, KD_U64, KD_BOOL, KD_C64,  KD_C128};

/* Whether a definition is the first of its op, so that ops come once. */
static bool first_of_op(uint32_t index) {
  const kd_kernel_def *def = &kp.kernels[index];
  const char *domain = def->domain ? def->domain : "ai.onnx";
  for (uint32_t i = 0; i < index; i++)
    if (!strcmp(kp.kernels[i].op, def->op) &&
        !strcmp(kp.kernels[i].domain ? kp.kernels[i].domain : "ai.onnx",
                domain))
      return false;
  return true;
}

bool op_wanted(const char *op, kd_dtype dtype) {
  if (kc.op && strcmp(kc.op, op) != 0) return false;
  return !kc.dtype || !strcmp(kc.dtype, kd_dtype_name(dtype));
}

static void dump(const kc_op *op, const value *got, const value *want,
                 uint32_t index);

/* One definition on one case; 0 where it does not take it. */
static bool run_def(kc_op_case *one, kc_node *node, const kd_kernel_def *def,
                    value **want) {
  char text[200], what[64];
  kc_run *run = NULL;
  kd_status status = kc_supports(def, node);
  if (status != KD_OK) {
    if (!kc_check(status == KD_UNIMPLEMENTED, "supports returned %s",
                  kd_status_name(status)))
      return true;
    return false;
  }
  kc_op_text(&one->op, text, sizeof text);
  status = kc_run_make(node, def, &one->op, &kc_plain, &run);
  if (!kc_check(status == KD_OK, "create of %s failed: %s: %s", text,
                kd_status_name(status), kc_message()))
    return true;
  status = kc_run_now(run);
  kc_check(status == KD_OK, "%s failed: %s: %s", text, kd_status_name(status),
           kc_message());
  kd_dtype dtype = KD_F32;
  for (uint32_t i = 0; i < one->op.in_count; i++)
    if (one->op.in[i]) {
      dtype = one->op.in[i]->dtype;
      break;
    }
  numerics within = kc_numerics(def, dtype);
  value *flushed[KC_PORTS] = {0};
  if (within.flushed && !node->dynamic)
    kc_reference_flushed(&one->op, node, flushed);
  for (uint32_t j = 0; j < one->op.out_count && status == KD_OK; j++) {
    if (!want[j]) continue;
    if (within.flushed && node->dynamic) {
      kc_check(true, " "); /* what counts as zero decides the shape */
      continue;
    }
    value *got = kc_run_output(run, j);
    within.other = flushed[j];
    snprintf(what, sizeof what, "%s output %u", def->op, j);
    if (!kc_compare(want[j], got, &within, what) && kc.dump && got)
      dump(&one->op, got, want[j], j);
    value_free(got);
  }
  if (status == KD_OK) kc_run_inputs_intact(run);
  kc_values_free(flushed, one->op.out_count);
  kc_run_free(run);
  return true;
}

#define LAID (KD_KERNEL_OWN_LAYOUT | KD_KERNEL_LAYOUT_AGNOSTIC)

/* A definition in each layout of the plugin's own that it takes. */
static uint32_t run_laid(kc_op_case *one, kc_node *node,
                         const kd_kernel_def *def, value **want) {
  uint32_t ran = 0;
  for (uint32_t n = 0; n < KC_LAYOUTS; n++)
    for (uint32_t which = KC_LAY_INPUT; which <= KC_LAY_ADDED; which++)
      if (kc_node_lay(node, def, KD_LAYOUT_OWN + n, which))
        ran += run_def(one, node, def, want);
  kc_node_rows(node);
  return ran;
}

static uint32_t run_fitting(kc_op_case *one, kc_node *node, bool laid,
                            value **want) {
  uint32_t ran = 0;
  for (uint32_t i = 0; i < kp.kernel_count; i++) {
    const kd_kernel_def *def = &kp.kernels[i];
    if (!kc_def_fits(def, node)) continue;
    if (!laid)
      ran += run_def(one, node, def, want);
    else if (def->flags & LAID)
      ran += run_laid(one, node, def, want);
  }
  return ran;
}

/* Inputs that models have as constants: of what sums, and of kernels with layouts, all but
 * the first and what is added to the result. */
static uint32_t weights_of(const kc_op_case *one, const kc_node *node,
                           bool laid) {
  const ref_kind kind = ref_find(one->op.domain, one->op.name)->kind;
  uint32_t mask = 0;
  if (node->dynamic || (!laid && kind != REF_SUM && kind != REF_QUANT &&
                        !strstr(one->op.name, "Integer")))
    return 0;
  for (uint32_t i = 1; i < one->op.in_count; i++)
    if (one->op.in[i] && node->in[i] != node->out[0]) mask |= 1u << i;
  return mask;
}

uint32_t op_run_defs(kc_op_case *one, bool laid) {
  kc_node *node = kc_node_make(&one->op, NULL, 0), *known = NULL;
  value *want[KC_PORTS] = {0};
  uint32_t ran = 0;
  if (!node) return 0;
  if (kc_reference(&one->op, node, want)) {
    ran = run_fitting(one, node, laid, want);
    one->op.constants = weights_of(one, node, laid);
    if (one->op.constants) known = kc_node_make(&one->op, NULL, 0);
    if (known) ran += run_fitting(one, known, laid, want);
    one->op.constants = 0;
    kc_values_free(want, one->op.out_count);
  }
  kc_node_free(known);
  kc_node_free(node);
  return ran;
}

bool op_taken(const kc_op_case *one, bool laid) {
  kc_node *node = kc_node_make(&one->op, NULL, 0);
  bool fits = false;
  for (uint32_t i = 0; node && i < kp.kernel_count && !fits; i++)
    fits = kc_def_fits(&kp.kernels[i], node) &&
           (!laid || (kp.kernels[i].flags & LAID));
  kc_node_free(node);
  return fits;
}

typedef struct sweep {
  uint32_t kinds; /* bit: ref_kind */
  kc_probe probe;
  bool floats_only;
  bool laid;
  uint32_t repeats;
} sweep;

kc_random op_named_seed(const char *op, kd_dtype dtype, uint32_t index,
                        const char *probe) {
  kc_random random = {kc.seed * 1000003 + dtype * 131 + index};
  for (; *op; op++)
    random.state = random.state * 31 + (uint8_t)*op;
  for (; *probe; probe++)
    random.state = random.state * 31 + (uint8_t)*probe;
  return random;
}

void op_begin(void) {
  kc_device(); /* the tables are read, the device is open */
}

static void run_sweep(const sweep *s) {
  static const char *const probes[] = {[KC_PROBE_FULL] = "full",
                                       [KC_PROBE_INTS] = "ints",
                                       [KC_PROBE_SPECIAL] = "special",
                                       [KC_PROBE_TINY] = "tiny"};
  const char *probe = s->laid ? "laid" : probes[s->probe];
  op_begin();
  for (uint32_t d = 0; d < kp.kernel_count; d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    const ref_op *ref = ref_find(def->domain, def->op);
    if (!first_of_op(d) || !ref || !(s->kinds >> ref->kind & 1)) continue;
    uint32_t count = kc_case_count(def->domain, def->op);
    for (size_t t = 0; t < KC_COUNT_OF(tried); t++) {
      kd_dtype dtype = tried[t];
      if (!op_wanted(def->op, dtype)) continue;
      if (s->floats_only && !dtype_is_float(dtype)) continue;
      for (uint32_t c = 0; c < count; c++) {
        kc_random random = op_named_seed(def->op, dtype, c, probe);
        kc_op_case one;
        if (!kc_case_make(def->domain, def->op, c, dtype, s->probe, &random,
                          &one))
          continue;
        bool typed = one.op.in_count == 0 || c == 0;
        for (uint32_t i = 0; i < one.op.in_count; i++)
          typed |= one.op.in[i] && one.op.in[i]->dtype == dtype;
        if (typed && op_taken(&one, s->laid) &&
            kc_case("op=%s,dtype=%s,case=%u,probe=%s", def->op,
                    kd_dtype_name(dtype), c, probe)) {
          uint32_t ran = op_run_defs(&one, s->laid);
          for (uint32_t r = 1; r < s->repeats && ran && !kc.quick; r++) {
            kc_case_free(&one);
            kc_case_make(def->domain, def->op, c, dtype, s->probe, &random,
                         &one);
            op_run_defs(&one, false);
          }
        }
        kc_case_free(&one);
        if (kc.quick && c >= (s->laid ? 16 : 4)) break;
      }
    }
  }
}

void kc_sweep_layouts(void) {
  run_sweep(
      &(sweep){.kinds = UINT32_MAX, .probe = KC_PROBE_FULL, .laid = true});
}

#define SWEEP(name, ...)              \
  static void name(void) {            \
    run_sweep(&(sweep){__VA_ARGS__}); \
  }
#define KIND(kind) .kinds = 1u << REF_##kind
#define FLOATS     .kinds = 1u << REF_ULP | 1u << REF_EXACT, .floats_only = true

SWEEP(op_exact, KIND(EXACT), .probe = KC_PROBE_FULL)
SWEEP(op_ulp, KIND(ULP), .probe = KC_PROBE_FULL, .repeats = 2)
SWEEP(op_sum_ints, KIND(SUM), .probe = KC_PROBE_INTS)
SWEEP(op_sum_bound, KIND(SUM), .probe = KC_PROBE_FULL, .floats_only = true)
SWEEP(op_quant, KIND(QUANT), .probe = KC_PROBE_FULL)
SWEEP(op_special, FLOATS, .probe = KC_PROBE_SPECIAL)
SWEEP(op_tiny, FLOATS, .probe = KC_PROBE_TINY)

/* ---- random ops ---------------------------------------------------------------------------- */

static void op_random(void) {
  static const char *const ops[] = {"RandomUniform", "RandomNormal"};
  op_begin();
  uint32_t seen = 0;
  for (size_t o = 0; o < 2; o++) {
    int64_t shape[1] = {20000};
    value *first = NULL;
    for (int round = 0; round < 3; round++) {
      kc_op op = {.name = ops[o], .out_count = 1};
      op.attrs[0] = (keel_attr){
          .name = "shape", .kind = KD_ATTR_INTS, .count = 1, .ints = shape};
      op.attrs[1] = (keel_attr){
          .name = "seed", .kind = KD_ATTR_FLOAT, .f = round == 2 ? 9 : 4};
      op.attr_count = 2;
      kc_node *node = kc_node_make(&op, NULL, 0);
      const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
      if (!def) {
        kc_node_free(node);
        break;
      }
      if (round == 0 && !kc_case("op=%s,dtype=f32", ops[o])) {
        kc_node_free(node);
        break;
      }
      seen++;
      kc_run *run = kc_run_of(node, def, &op, &kc_plain);
      kc_ok(kc_run_now(run), "run");
      value *got = kc_run_output(run, 0);
      real sum = 0, squares = 0;
      for (int64_t i = 0; i < 20000; i++) {
        sum += got->x[i];
        squares += got->x[i] * got->x[i];
        if (o == 0 && !(got->x[i] >= 0 && got->x[i] <= 1))
          kc_check(false, "%Lg is outside the range", got->x[i]);
      }
      real mean = sum / 20000, var = squares / 20000 - mean * mean;
      real want_mean = o ? 0 : 0.5L, want_var = o ? 1 : 1 / 12.0L;
      /* six standard deviations */
      kc_check(fabsl(mean - want_mean) < 6 * sqrtl(want_var / 20000),
               "the mean is %Lg", mean);
      kc_check(fabsl(var - want_var) < 6 * (o ? sqrtl(2.0L / 20000) : 0.00053L),
               "the variance is %Lg", var);
      if (round == 0) {
        first = got;
      } else {
        bool same = !memcmp(got->x, first->x, 16); /* the first elements */
        for (int64_t i = 0; i < 20000; i++)
          same &= got->x[i] == first->x[i];
        kc_check(round == 1 ? same : !same,
                 round == 1 ? "the same seed gives other numbers"
                            : "another seed gives the same numbers");
        value_free(got);
      }
      kc_run_free(run);
      kc_node_free(node);
    }
    value_free(first);
  }
  if (!seen) kc_unclaimed("it has no random op");
}

/* ---- dumps ------------------------------------------------------------------------------------- */

/* NumPy's .npy, version 1.0, of doubles. */
static bool write_npy(const char *path, const value *from) {
  char head[200], dims[120] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < from->rank; i++)
    used += (size_t)snprintf(dims + used, sizeof dims - used, "%lld,",
                             (long long)from->dims[i]);
  keel_save save;
  if (!keel_save_begin(&save, path, 0666)) return false;
  FILE *file = save.file;
  int size = snprintf(head, sizeof head,
                      "{'descr': '<f8', 'fortran_order': False, 'shape': (%s),"
                      " }",
                      dims);
  int pad = 63 - (10 + size) % 64;
  uint16_t length = (uint16_t)(size + pad + 1);
  fwrite("\x93NUMPY\x01\x00", 1, 8, file);
  fwrite(&length, 1, 2, file);
  fprintf(file, "%s%*s\n", head, pad, "");
  for (int64_t i = 0; i < from->count; i++) {
    double x = (double)from->x[i];
    fwrite(&x, sizeof x, 1, file);
  }
  return keel_save_end(&save, true);
}

/* DIR/op.exact_op=Add,dtype=f32,case=0,probe=full-got-0.npy */
static void dump_one(const value *from, const char *what, uint32_t index) {
  char path[4600], name[256];
  snprintf(name, sizeof name, "%s", kc_shared->name);
  for (char *at = name; *at; at++)
    if (*at == '/') *at = '_';
  snprintf(path, sizeof path, "%s/%s-%s-%u.npy", kc.dump, name, what, index);
  if (!write_npy(path, from))
    kc_note("%s can't be written: %s", path, strerror(errno));
}

static void dump(const kc_op *op, const value *got, const value *want,
                 uint32_t index) {
  dump_one(got, "got", index);
  dump_one(want, "want", index);
  for (uint32_t i = 0; i < op->in_count; i++)
    if (op->in[i]) dump_one(op->in[i], "in", i);
}

/* ---- what there is no reference for --------------------------------------------------------- */

static void op_covered(void) {
  op_begin();
  for (uint32_t d = 0; d < kp.kernel_count; d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    if (!first_of_op(d)) continue;
    bool known =
        keel_schema_ready() == KD_OK &&
        keel_schema_find(def->domain && strcmp(def->domain, "ai.onnx") != 0
                             ? def->domain
                             : "",
                         def->op);
    kc_check(true, " ");
    if (known && (!ref_find(def->domain, def->op) ||
                  !kc_case_count(def->domain, def->op)))
      kc_note("%s is judged by ONNX's stored data only", def->op);
  }
}

#define RULE(severity, id, check, flags, header, sentence, names, about)     \
  KC_RULE(severity, CORE, id, check, (flags) | KC_CASES | KC_SPREAD, header, \
          sentence, names, about)

static const kc_rule rules[] = {
    RULE(
        MUST, "op.exact", op_exact, 0, "kernel.h",
        "Semantics are those of the op's schema",
        "kd_kernel_def.op kd_kernel_def.domain kd_kernel_def.enqueue"
        " KD_U8"
        " KD_I8 KD_U16 KD_I16 KD_I32 KD_I64 KD_U32 KD_U64 KD_BOOL",
        "Moving, comparing and integer ops have one right answer: any other bit"
        " is an index or a type that is wrong (a transpose through f32 loses"
        " the low bits of int64)."),
    RULE(MUST, "op.ulp", op_ulp, 0, "kernel.h",
         "elementwise ops stay within OpenCL's limits for the full profile",
         "KD_KERNEL_RELAXED KD_F32 KD_F64 KD_F16 KD_BF16",
         "Fast approximations are welcome, and must be declared:"
         " KD_KERNEL_RELAXED."),
    RULE(MUST, "op.sum-exact-ints", op_sum_ints, 0, "kernel.h",
         "the factors of products are not rounded", "kd_kernel_def.enqueue",
         "Small integers add up exactly in any order: a dropped tail, a wrong"
         " stride or a narrow accumulator shows without any tolerance."),
    RULE(MUST, "op.sum-bound", op_sum_bound, 0, "kernel.h",
         "sums accumulate in f32 at least (f64 for f64)",
         "KD_KERNEL_TF32 KD_KERNEL_ACC_F16 KD_KERNEL_FAST_CONV",
         "The error of a sum grows with the root of its length. What is larger"
         " was computed in fewer bits than declared."),
    RULE(MUST, "op.matmul-ints", op_matmul_ints, 0, "kernel.h",
         "Semantics are those of the op's schema", "kd_kernel_def.enqueue",
         "The same for products of each length from 1 to 4096."),
    RULE(MUST, "op.matmul-bound", op_matmul_full, 0, "kernel.h",
         "Products of f32 round their factors to 11 bits (TF32)",
         "KD_KERNEL_TF32 KD_KERNEL_ACC_F16",
         "Full mantissas of both signs show TF32 and f16 accumulators at each"
         " length from 1 to 4096; relative tolerances do not."),
    RULE(MUST, "op.structure", op_structure, 0, "kernel.h",
         "ONNX's operator specification for domain \"ai.onnx\"",
         "kd_kernel_def.enqueue",
         "One-hot matrices name the element that was read; a large mean shows a"
         " variance by squares; equal values a Softmax without its maximum."),
    RULE(MUST, "op.quantised", op_quant, 0, "kernel.h",
         "Semantics are those of the op's schema", "KD_U8 KD_I8",
         "Rounding half up instead of half to even, and wrapping instead of"
         " saturating, are the classics."),
    RULE(MUST, "op.nan-inf", op_special, 0, "kernel.h",
         "NaN and infinities propagate as in IEEE 754", "KD_KERNEL_RELAXED",
         "max(x, 0) by a compare drops NaN: errors upstream are then hidden."),
    RULE(MUST, "op.subnormal", op_tiny, 0, "kernel.h", "subnormals are kept",
         "KD_KERNEL_FLUSH",
         "Flushing to zero must be declared; in f16 subnormals are a good part "
         "of"
         " the range."),
    RULE(MUST, "op.overflow", op_overflow, 0, "kernel.h",
         "NaN and infinities propagate as in IEEE 754", "KD_F16 KD_BF16",
         "Results beyond the largest finite number are infinite, those below it"
         " are not."),
    RULE(MUST, "op.rounding-cast", op_cast, 0, "kernel.h",
         "Semantics are those of the op's schema", "KD_BF16 KD_F16",
         "Casts round to nearest, ties to even; cutting the low half of an f32"
         " is not a cast to bf16."),
    RULE(MUST, "op.small-types", op_small, 0, "kernel.h",
         "Semantics are those of the op's schema",
         "KD_F8E4M3FN KD_U4 KD_F4E2M1",
         "Casts to types of eight bits or less round to nearest, ties to even,"
         " and what is too large becomes the largest; several elements share a"
         " byte, the first in its lowest bits."),
    RULE(SHOULD, "op.signed-zero", op_signed_zero, 0, "kernel.h",
         "The sign of zero should be kept", "KD_F32",
         "C11's Annex F says which zero each function gives."),
    RULE(MUST, "op.ties", op_ties, 0, "kernel.h",
         "Semantics are those of the op's schema", "kd_kernel_def.enqueue",
         "The first of equal elements counts, unless select_last_index is"
         " set."),
    RULE(
        MUST, "op.integers", op_integers, 0, "kernel.h",
        "Semantics are those of the op's schema", "KD_I32 KD_I64 KD_U8",
        "64-bit integers don't fit into a double; divisions cut towards zero."),
    RULE(MUST, "op.random", op_random, 0, "kernel.h",
         "Semantics are those of the op's schema", "kd_node_table.attr_float",
         "Only statistics can be judged: range, mean, variance, and that a seed"
         " gives the same numbers again (onnx/onnx#3812)."),
    KC_RULE(MUST, CORE, "op.onnx-data", kc_onnx_data, KC_CASES | KC_CLOSED,
            "kernel.h", "Semantics are those of the op's schema",
            "kd_kernel_def.opset_min kd_kernel_def.opset_max"
            " kd_node_table.opset",
            "ONNX's own stored cases, through the host, on this device."),
    KC_RULE(SHOULD, CORE, "op.model", kc_whole_models, KC_CASES | KC_CLOSED,
            "kernel.h", "Semantics are those of the op's schema",
            "kd_launch.node",
            "Small whole models against the reference: what single ops do not"
            " show is how they meet."),
    KC_RULE(INFO, CORE, "op.covered", op_covered, 0, "kernel.h",
            "A kernel definition is const data", "kd_kernel_def.op",
            "Which ops have no reference of the suite's own."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(moves_as_f32, "op.exact", "64-bit integers move as f32"),
    DEFECT(fast_tanh, "op.ulp", "tanh is a rational approximation"),
    DEFECT(reduce_drops, "op.sum-exact-ints", "sums drop their last term"),
    DEFECT(constant_drops, "op.sum-exact-ints", "products by constants drop their last term"),
    DEFECT(reduce_narrow, "op.sum-bound", "sums are kept in 16 bits"),
    DEFECT(matmul_drops, "op.matmul-ints", "products drop the last k"),
    DEFECT(matmul_tf32, "op.matmul-bound", "products take inputs in TF32"),
    DEFECT(matmul_acc_f16, "op.matmul-bound", "products are summed in f16"),
    DEFECT(matmul_bf16, "op.matmul-bound", "products take inputs in bf16"),
    DEFECT(var_by_squares, "op.structure", "the variance is the mean of squares less the square"),
    DEFECT(softmax_raw, "op.structure", "Softmax does not subtract the maximum"),
    DEFECT(packed_swapped, "op.sum-bound", "the high half of a byte of weights comes first"),
    DEFECT(packed_zeros, "op.sum-bound", "zero points of packed weights are not read"),
    DEFECT(packed_tail, "op.sum-bound", "a block of packed weights that is not full is left out"),
    DEFECT(find_first, "op.exact", "of equal keys the first is found"),
    DEFECT(find_nan, "op.exact", "NaN is not found among keys"),
    DEFECT(trees_strict, "op.sum-bound", "what equals the split of a tree's node is above it"),
    DEFECT(trees_nan, "op.sum-bound", "NaN is below the split of a tree's node"),
    DEFECT(quant_half_up, "op.quantised", "half is rounded up"),
    DEFECT(matmul_tf32_eights, "op.matmul-bound", "products of multiples of 8 take inputs in TF32"),
    DEFECT(zero_unsigned, "op.quantised", "a negative zero point is read as unsigned"),
    DEFECT(quant_wraps, "op.quantised", "quantised values wrap"),
    DEFECT(relu_nan, "op.nan-inf", "Relu(NaN) is 0"),
    DEFECT(max_nan, "op.nan-inf", "Max drops NaN"),
    DEFECT_AS(flushes, "op.subnormal", KC_AROUND, "subnormals are flushed"),
    DEFECT_AS(clamps, "op.overflow", KC_AROUND, "results are clamped to the largest number"),
    DEFECT(cast_cuts, "op.rounding-cast", "casts to bf16 cut"),
    DEFECT(small_swapped, "op.small-types", "the second element of a byte comes first"),
    DEFECT(small_away, "op.small-types", "ties of small floats are rounded up"),
    DEFECT(small_nan, "op.small-types", "what is too large for a small float becomes NaN"),
    DEFECT_AS(zero_sign, "op.signed-zero", KC_AROUND, "-0 becomes 0"),
    DEFECT(last_tie, "op.ties", "the last of equal elements counts"),
    DEFECT(div_floors, "op.integers", "64-bit integers are divided as doubles"),
    DEFECT(order_doubles, "op.integers", "64-bit integers are compared as doubles"),
    DEFECT(seed_ignored, "op.random", "the seed is ignored"),
    DEFECT(random_range, "op.random", "random numbers are from 0 to 2"),
    DEFECT(pool_count, "op.onnx-data", "AveragePool divides by the kernel's size at the edge"),
    DEFECT(chain_breaks, "op.model", "every hundredth launch changes an element"),
};
/* clang-format on */

KC_AREA(op, "What kernels compute");
