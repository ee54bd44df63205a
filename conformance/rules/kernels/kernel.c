/* kernel.c - rules of kernels, all but what is computed; and the checks of definitions. */
#include <math.h>

#include "ops/vendor.h"
#include "rules/kernels/kernel.h"
#include "rules/ops/cases.h"
#include "rules/rules.h"

uint32_t kernel_all_ops(void) {
  return kc.quick ? 12 : 1000;
}

/* ---- definitions --------------------------------------------------------------------- */

static void kernel_list_static(void) {
  kc_load();
  uint32_t before = kp.kernel_count;
  char out[60000];
  bool late = false;
  int status = kc_helper("kernels", "", KC_S * 60, out, sizeof out, &late);
  kc_check(!late,
           "reading the definitions in another process takes over a"
           " minute");
  kc_check(late || status == 0,
           "the definitions can't be read in another process");
  char *save = NULL, *line = strtok_r(out, "\n", &save);
  for (uint32_t i = 0; i < before && line; i++) {
    char own[200];
    snprintf(own, sizeof own, "%s %s %u",
             kp.kernels[i].domain ? kp.kernels[i].domain : "-",
             kp.kernels[i].op ? kp.kernels[i].op : "-", kp.kernels[i].flags);
    const char *first = line; /* a driver may have written lines, too */
    do
      if (!strcmp(own, line)) break;
    while ((line = strtok_r(NULL, "\n", &save)));
    kc_check(line != NULL,
             "definition %u is \"%s\" here, and \"%s\" in"
             " another process",
             i, own, first);
    if (line) line = strtok_r(NULL, "\n", &save);
  }
  kc_device();
  kc_check(before > 0 || kp.table->regions,
           "it has neither definitions nor a compiler");
  kc_check(kp.table->kernel_count == before,
           "%u definitions before open, %u behind it", before,
           kp.table->kernel_count);
}

static void kernel_def_valid(void) {
  kc_load();
  if (keel_schema_ready() != KD_OK) kc_stop("no schemas");
  uint32_t known = 0;
  for (uint32_t i = 0; i < kp.kernel_count; i++) {
    const kd_kernel_def *def = &kp.kernels[i];
    if (!kc_check(def->op && *def->op && def->enqueue,
                  "definition %u lacks its op or enqueue", i))
      continue;
    const char *domain = def->domain ? def->domain : "ai.onnx";
    const keel_schema *schema = keel_op_find(
        kc_ops(), !strcmp(domain, "ai.onnx") ? "" : domain, def->op);
    bool ours = !strcmp(domain, "ai.onnx") || !strcmp(domain, "keel");
    known += schema != NULL;
    kc_check(!def->opset_max || def->opset_min <= def->opset_max,
             "%s: opset_min %u, opset_max %u", def->op, def->opset_min,
             def->opset_max);
    if (!schema) continue;
    uint64_t allowed = schema->input_count ? schema->inputs[0].types : 0;
    uint64_t all = 0;
    for (uint32_t k = 0; k < schema->input_count; k++)
      allowed = schema->inputs[k].types ? allowed | schema->inputs[k].types
                                        : UINT64_MAX;
    for (int k = 0; k < 8; k++)
      all |= def->input_types[k];
    kc_check(!all || !allowed || (all & allowed),
             "%s: none of its types is one"
             " of the op's",
             def->op);
    kc_check(
        !ours || !def->input_types[0] || !schema->input_count ||
            !schema->inputs[0].types ||
            (def->input_types[0] & ~schema->inputs[0].types) == 0,
        "%s: types 0x%llx of input 0 are not the op's", def->op,
        (unsigned long long)(def->input_types[0] & ~schema->inputs[0].types));
    for (uint32_t k = 0; k < i; k++) {
      const kd_kernel_def *other = &kp.kernels[k];
      bool same = !strcmp(other->op, def->op) &&
                  !strcmp(other->domain ? other->domain : "ai.onnx", domain) &&
                  other->opset_min == def->opset_min &&
                  other->opset_max == def->opset_max &&
                  other->priority == def->priority && !other->supports &&
                  !def->supports && other->flags == def->flags &&
                  !memcmp(other->input_types, def->input_types,
                          sizeof def->input_types) &&
                  !memcmp(other->output_types, def->output_types,
                          sizeof def->output_types);
      if (same)
        kc_check(false,
                 "definitions %u and %u of %s are equal: the second is"
                 " never used",
                 k, i, def->op);
    }
  }
  kc_check(known > 0 || !kp.kernel_count, "the host knows none of its ops");
}

static void def_create(kc_op_case *one, kc_node *node,
                       const kd_kernel_def *def) {
  kc_run *run = NULL;
  kd_status status = kc_run_make(node, def, &one->op, &kc_plain, &run);
  kc_check(status == KD_OK, "create returned %s: %s", kd_status_name(status),
           kc_message());
  kc_run_free(run);
}

static void kernel_create_destroy(void) {
  kc_each_op(NULL, def_create, KD_F32, kernel_all_ops());
}

/* supports says yes: then create and run succeed, and never abort. */
static void def_honest(kc_op_case *one, kc_node *node,
                       const kd_kernel_def *def) {
  kc_run *run = NULL;
  (void)def;
  for (uint32_t i = 0; i < kp.kernel_count; i++) {
    const kd_kernel_def *each = &kp.kernels[i];
    if (!kc_def_fits(each, node) || kc_supports(each, node) != KD_OK) continue;
    kd_status status = kc_run_make(node, each, &one->op, &kc_plain, &run);
    if (!kc_check(status == KD_OK, "supports says yes, create returned %s: %s",
                  kd_status_name(status), kc_message()))
      continue;
    status = kc_run_now(run);
    kc_check(status == KD_OK, "supports says yes, the run returned %s: %s",
             kd_status_name(status), kc_message());
    kc_run_free(run);
  }
}

static void kernel_supports_honest(void) {
  kc_each_op(NULL, def_honest, KD_F32, kernel_all_ops());
}

static void kernel_supports_odd(void) {
  static const uint32_t ranks[] = {0, 1, 3, 5, 8};
  kc_device();
  uint32_t asked = 0;
  for (size_t r = 0; r < KC_COUNT_OF(ranks); r++) {
    if (!kc_case("rank=%u", ranks[r])) continue;
    for (uint32_t d = 0; d < kp.kernel_count; d++) {
      const kd_kernel_def *def = &kp.kernels[d];
      if (!def->supports) continue;
      int64_t dims[8] = {1, 2, 1, 3, 1, 2, 1, 1};
      value *in = value_make(KD_F32, ranks[r], dims);
      kc_op op = {.domain = def->domain,
                  .name = def->op,
                  .in = {in, in},
                  .in_count = 2,
                  .out_count = 1};
      for (uint32_t n = 1; n <= 2; n++) {
        op.in_count = n;
        kc_node *node = kc_node_make(&op, NULL, 0);
        if (node && kc_def_fits(def, node)) {
          kd_status status = kc_supports(def, node);
          asked++;
          kc_check(status == KD_OK || status == KD_UNIMPLEMENTED,
                   "%s.supports returned %s", def->op, kd_status_name(status));
          if (status == KD_OK) {
            kc_run *run = NULL;
            kd_status made = kc_run_make(node, def, &op, &kc_plain, &run);
            if (kc_check(made == KD_OK,
                         "%s takes rank %u, and create returned"
                         " %s",
                         def->op, ranks[r], kd_status_name(made))) {
              kd_status ran = kc_run_now(run);
              kc_check(ran == KD_OK,
                       "%s takes rank %u, and running it returned"
                       " %s: %s",
                       def->op, ranks[r], kd_status_name(ran), kc_message());
              kc_run_free(run);
            }
          }
        }
        kc_node_free(node);
      }
      value_free(in);
    }
    kc_check(true, " ");
  }
  (void)asked;
}

static void def_pure(kc_op_case *one, kc_node *node, const kd_kernel_def *def) {
  (void)one;
  for (uint32_t i = 0; i < kp.kernel_count; i++) {
    const kd_kernel_def *each = &kp.kernels[i];
    if (!each->supports || !kc_def_fits(each, node)) continue;
    kd_status first = kc_supports(each, node);
    for (int k = 0; k < 20; k++)
      kc_check(kc_supports(each, node) == first,
               "supports says %s first, then otherwise", kd_status_name(first));
  }
  kc_check(def != NULL, " ");
}

static void kernel_supports_pure(void) {
  kc_each_op(NULL, def_pure, KD_F32, kernel_all_ops());
}

static void def_cost(kc_op_case *one, kc_node *node, const kd_kernel_def *def) {
  (void)one;
  kc_check(true, " ");
  if (!def->cost) return;
  kd_cost cost = {.struct_size = sizeof cost};
  kd_status status =
      KC_CALL(kd_status, def->cost(kc_device(), &node->node, &cost), "%s.cost",
              def->op);
  kc_check(status == KD_OK, "cost returned %s", kd_status_name(status));
  kc_check(cost.time < 3600 * KC_S, "cost gives %llu s",
           (unsigned long long)(cost.time / KC_S));
  kc_check(cost.reserved == 0 || cost.struct_size <= sizeof cost,
           "cost set a reserved field");
}

static void kernel_cost(void) {
  kc_each_op(NULL, def_cost, KD_F32, kernel_all_ops());
}

/* ---- the rules ------------------------------------------------------------------------ */

#define RULE(severity, id, check, flags, header, sentence, names, about) \
  KC_RULE(severity, CORE, id, check, flags, header, sentence, names, about)

static const kc_rule rules[] = {
    RULE(
        MUST, "kernel.list-static", kernel_list_static, 0, "kernel.h",
        "A kernel definition is const data",
        "kd_plugin.kernels kd_plugin.kernel_count kd_kernel_def.struct_size"
        " kd_kernel_def.data",
        "Hosts list what a plugin does without opening a device; a list that is"
        " filled in open is empty for them."),
    RULE(MUST, "kernel.def-valid", kernel_def_valid, 0, "kernel.h",
         "A kernel for one op on some types",
         "kd_kernel_def.op kd_kernel_def.domain kd_kernel_def.opset_min"
         " kd_kernel_def.opset_max kd_kernel_def.input_types"
         " kd_kernel_def.output_types kd_kernel_def.priority KD_TYPES"
         " KD_MAX_TYPED_INPUTS KD_MAX_TYPED_OUTPUTS",
         "A misspelt op, or a type that the op does not have, is never used and"
         " never noticed."),
    RULE(MUST, "kernel.create-destroy", kernel_create_destroy, KC_CASES,
         "kernel.h",
         "Creates an instance: compiles, selects, prepacks constants",
         "kd_kernel_def.create kd_kernel_def.destroy kd_kernel_def.data"
         " kd_launch.data"
         " kd_node_table.op kd_node_table.domain kd_node_table.name"
         " kd_node_table.input_count kd_node_table.output_count"
         " kd_node_table.output_type",
         "A definition that can't be created is worse than none: the host has"
         " placed the op already."),
    RULE(MUST, "kernel.supports-honest", kernel_supports_honest, KC_CASES,
         "kernel.h", "Whether the device supports this very node",
         "kd_kernel_def.supports kd_kernel_def.create kd_kernel_def.enqueue",
         "supports says yes, and the kernel aborts on an assertion"
         " (ggml-org/llama.cpp#25568)."),
    RULE(MUST, "kernel.supports-any-rank", kernel_supports_odd, KC_CASES,
         "kernel.h", "KD_UNIMPLEMENTED (host->fail says why)",
         "kd_kernel_def.supports kd_node_table.input_type KD_UNIMPLEMENTED"
         " KD_RANK_UNKNOWN",
         "supports that looks at dims[1] of a scalar reads past it."),
    RULE(
        MUST, "kernel.supports-pure", kernel_supports_pure, KC_CASES,
        "kernel.h", "Cheap; any thread", "kd_kernel_def.supports",
        "The host asks again and again; an answer that depends on the last call"
        " makes placement change."),
    RULE(MUST, "kernel.cost-sane", kernel_cost, KC_CASES, "kernel.h",
         "Estimates the cost of a node",
         "kd_kernel_def.cost kd_cost.time kd_cost.flops kd_cost.bytes"
         " kd_cost.reserved",
         "Times that are not nanoseconds send ops to the wrong device."),
    RULE(MUST, "kernel.reuse", kernel_reuse, KC_CASES, "kernel.h",
         "It must not grow when launches repeat",
         "kd_kernel_def.enqueue kd_kernel_def.workspace",
         "Results or shapes of the last run that are still in the instance."),
    RULE(MUST, "kernel.any-shape", kernel_any_shape, KC_CASES, "kernel.h",
         "One instance serves every shape", "KD_KERNEL_ANY_SHAPE",
         "A kernel that keeps the first shape computes the second with it; one"
         " with packed weights serves each batch of a model."),
    RULE(MUST, "kernel.concurrent", kernel_concurrent, 0, "kernel.h",
         "Several threads may enqueue one instance at once, on different"
         " streams",
         "kd_kernel_def.enqueue",
         "Scratch memory in the instance is shared by launches that run at the"
         " same time."),
    RULE(MUST, "kernel.concurrent-instances", kernel_concurrent_instances,
         KC_CASES, "memory.h", "Any thread may call any slot",
         "kd_kernel_def.enqueue kd_kernel_def.create",
         "Static scratch memory is shared by all instances."),
    RULE(MUST, "kernel.workspace-enough", kernel_workspace, KC_CASES,
         "kernel.h", "Bytes of scratch memory that this launch needs",
         "kd_kernel_def.workspace kd_launch.workspace",
         "One tile too few is written into the next tensor."),
    RULE(MUST, "kernel.outputs-complete", kernel_outputs_complete, KC_CASES,
         "kernel.h", "Every element of an output is written",
         "kd_launch.outputs",
         "The tail of the last block, n % 256, keeps what was there; in a test"
         " that is zero."),
    RULE(SHOULD, "kernel.deterministic", kernel_deterministic, KC_CASES,
         "kernel.h", "the same inputs give the same bits",
         "KD_KERNEL_NONDETERMINISTIC",
         "Atomics and split sums change the last bits: declare it."),
    RULE(MUST, "kernel.inputs-untouched", kernel_inputs, KC_CASES | KC_WATCHED,
         "kernel.h", "Inputs are only read", "kd_launch.inputs",
         "Normalising in the input's memory saves a buffer and breaks every"
         " other reader of it. Watched behind every launch of all rules."),
    RULE(MUST, "kernel.inplace", kernel_inplace, KC_CASES, "kernel.h",
         "output 0 may share the memory of input i", "kd_kernel_def.inplace",
         "Claimed for an op that reads its neighbours, it reads results instead"
         " of inputs."),
    RULE(MUST, "kernel.aliases", kernel_aliases, KC_CASES, "kernel.h",
         "An output that may share the memory of an input",
         "kd_kernel_def.aliases kd_kernel_def.alias_count"
         " kd_kernel_def.reserved KD_ALIAS_MUST kd_alias.output kd_alias.input"
         " kd_alias.flags kd_alias.reserved",
         "A kernel that clears its output first, or reads the input late, finds"
         " its own results there."),
    RULE(MUST, "kernel.alias-inputs", kernel_alias, KC_CASES, "kernel.h",
         "Two inputs may be the same buffer", "kd_launch.inputs",
         "x * x is common; restrict promises the compiler that it is not."),
    RULE(MUST, "kernel.strided-inputs", kernel_strided, KC_CASES, "kernel.h",
         "Inputs in device memory may have strides; without this flag"
         " they are packed",
         "KD_KERNEL_STRIDED kd_tensor.strides",
         "A declared kernel that ignores them reads the wrong elements."),
    RULE(MUST, "kernel.any-offset", kernel_any_offset, KC_CASES, "kernel.h",
         "Input data begins at any multiple of the element size",
         "KD_KERNEL_ANY_OFFSET",
         "Vector loads want an alignment that a slice in the middle of a tensor"
         " has not."),
    RULE(MUST, "kernel.offset-tensors", kernel_offset, KC_CASES, "tensor.h",
         "bytes from the buffer's start to the first element",
         "kd_tensor.offset kd_tensor.buffer kd_tensor.data kd_tensor.size"
         " kd_tensor.rank kd_tensor.dtype kd_tensor.reserved KD_MAX_RANK",
         "The host gives out pieces of large buffers: a dropped offset reads"
         " another tensor."),
    RULE(MUST, "kernel.empty-tensor", kernel_empty, KC_CASES, "kernel.h",
         "Empty tensors are legal", "kd_tensor.dims",
         "A launch of zero blocks is an error for most drivers."),
    RULE(MUST, "kernel.ranks", kernel_ranks, KC_CASES, "tensor.h",
         "0 is a scalar; at most KD_MAX_RANK",
         "kd_tensor.rank KD_MAX_RANK kd_type.dtype kd_type.layout"
         " kd_type.reserved",
         "dims[0] of a scalar is not there; arrays of four dims overflow with"
         " five."),
    RULE(MUST, "kernel.odd-shapes", kernel_odd_shapes, KC_CASES, "kernel.h",
         "Every element of an output is written", "kd_kernel_def.enqueue",
         "Primes, and one more or less than each power of two, hit what tiles"
         " and vectors leave over."),
    RULE(MUST, "kernel.odd-products", kernel_odd_products, KC_CASES, "kernel.h",
         "Every element of an output is written", "kd_kernel_def.enqueue",
         "The same for the three sizes of a product."),
    RULE(SHOULD, "kernel.large", kernel_large, KC_LONG | KC_CASES, "tensor.h",
         "sizes in elements, each >= 0", "kd_tensor.dims",
         "Indices and grids that are 16 or 24 bits wide somewhere."),
    RULE(MUST, "kernel.dynamic-output", kernel_dynamic, KC_CASES, "kernel.h",
         "Outputs have no shape and no memory until `enqueue` calls"
         " host->set_output",
         "KD_KERNEL_DYNAMIC_OUTPUT kd_host.set_output",
         "Reporting the capacity instead of the count, or not waiting for the"
         " count."),
    RULE(
        MUST, "kernel.host-args", kernel_host_args, KC_CASES, "kernel.h",
        "the kernel reads when it is enqueued",
        "kd_kernel_def.host_inputs KD_TENSOR_HOST kd_tensor.flags",
        "A host pointer handed to the device, or read when the work runs, finds"
        " something else there."),
    RULE(MUST, "kernel.host-values", kernel_host_values, KC_CASES, "kernel.h",
         "may differ in each launch of one instance",
         "kd_kernel_def.host_inputs kd_kernel_def.enqueue",
         "A plan that was made for the first axes or pads, and is used for all"
         " others."),
    KC_RULE(MUST, REPLAY, "kernel.host-values-recorded",
            kernel_host_values_kept, KC_CASES, "capture.h",
            "Buffers and kernels that it uses stay alive until it is destroyed",
            "kd_capture_table.launch kd_kernel_def.host_inputs",
            "What an instance made for a launch's host arguments goes with the"
            " next launch, and a recording still points there."),
    RULE(MUST, "kernel.host-outputs", kernel_host_outputs, KC_CASES, "kernel.h",
         "input or output i is in host memory", "kd_kernel_def.host_outputs",
         "The host reads them when the stream has passed."),
    RULE(MUST, "kernel.constants", kernel_constants, KC_CASES, "host.h",
         "The value of an input that is a constant of the program",
         "kd_node_table.constant KD_TENSOR_CONSTANT kd_kernel_def.create",
         "Prepacked weights must be the weights, also on the second run."),
    RULE(MUST, "kernel.taken", kernel_taken, KC_CASES, "kernel.h",
         "nothing reads its tensor any more", "kd_kernel_def.taken",
         "The host gives the memory of such weights back: who still reads them"
         " computes with whatever lies there."),
    RULE(MUST, "kernel.constants-in-create", kernel_constants_in_create,
         KC_CASES, "kernel.h",
         "It reads the data of constants (kd_node_table.constant) no later than"
         " in `create`",
         "KD_KERNEL_CONSTANTS_IN_CREATE",
         "The host frees its copy of the weights: a launch that asks for them"
         " again finds none."),
    RULE(MUST, "kernel.constant-inputs", kernel_constant_inputs, KC_CASES,
         "host.h", "Another constant may lie at the same address later",
         "kd_node_table.constant kd_node_table.constant_id"
         " kd_kernel_def.create kd_kernel_def.destroy",
         "Weights that are kept by the address of the constant, or by a hash of"
         " its first bytes, are another model's when memory is used again."),
    RULE(MUST, "kernel.constant-lifetime", kernel_constant_lifetime, KC_CASES,
         "host.h",
         "In `supports` and `cost` the data is valid for the call alone",
         "kd_node_table.constant kd_kernel_def.supports kd_kernel_def.cost"
         " kd_kernel_def.create",
         "An address that `supports` has kept is read in `create`; the host may"
         " have moved the weights, or given them back."),
    RULE(MUST, "kernel.attributes-apart", kernel_attributes_apart, KC_CASES,
         "host.h", "Two nodes of one op may differ in any attribute, by a bit",
         "kd_node_table.attr_int kd_node_table.attr_float"
         " kd_node_table.attr_string kd_node_table.attr_ints"
         " kd_kernel_def.create",
         "Code that is kept by the op's name, or by a key that prints floats in"
         " six digits, serves the wrong node."),
    RULE(MUST, "kernel.default-attributes", kernel_defaults, KC_CASES, "host.h",
         "An attribute that the model does not set has the schema's"
         " default",
         "kd_node_table.attr_int kd_node_table.attr_float"
         " kd_node_table.attr_kind kd_node_table.attr_ints"
         " kd_node_table.attr_string kd_node_table.attr_floats"
         " kd_node_table.attr_strings kd_node_table.attr_tensor"
         " KD_ATTR_ABSENT KD_ATTR_FLOAT KD_ATTR_INT KD_ATTR_STRING"
         " KD_ATTR_TENSOR KD_ATTR_GRAPH KD_ATTR_FLOATS KD_ATTR_INTS"
         " KD_ATTR_STRINGS",
         "An epsilon of 0 instead of 1e-5 shows in one model of ten."),
    RULE(INFO, "kernel.batch-invariant", kernel_batch, 0, "kernel.h",
         "the same inputs give the same bits", "kd_kernel_def.enqueue",
         "Whether a row's result depends on how many rows there are: reported,"
         " not demanded."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(list_late, "kernel.list-static", "definitions are there from open on"),
    DEFECT(def_types, "kernel.def-valid", "a definition has a type that the op has not"),
    DEFECT_AS(def_double, "kernel.def-valid", KC_AROUND, "a definition stands twice"),
    DEFECT_AS(not_creatable, "kernel.create-destroy", KC_AROUND, "one definition can't be created"),
    DEFECT(supports_all, "kernel.supports-honest", "supports says yes to what enqueue refuses"),
    DEFECT(supports_scalar, "kernel.supports-any-rank", "supports reads past a scalar's dims"),
    DEFECT(supports_flips, "kernel.supports-pure", "the answer of supports follows the last one"),
    DEFECT(cost_in_years, "kernel.cost-sane", "cost gives picoseconds"),
    DEFECT_AS(stale_result, "kernel.reuse", KC_AROUND, "the second run adds the first one's result"),
    DEFECT(first_shape, "kernel.any-shape", "an instance keeps its first length"),
    DEFECT(first_rows, "kernel.any-shape", "an instance with weights keeps its first rows"),
    DEFECT_AS(instance_scratch, "kernel.concurrent", KC_RACE, "launches of an instance share scratch memory"),
    DEFECT_AS(static_scratch, "kernel.concurrent-instances", KC_RACE, "all products share scratch memory"),
    DEFECT_AS(topk_scratch, "kernel.concurrent-instances", KC_RACE, "all of TopK share scratch memory"),
    DEFECT(workspace_short, "kernel.workspace-enough", "the workspace is short by a tile"),
    DEFECT_AS(tail_unwritten, "kernel.outputs-complete", KC_AROUND, "the last element is not written"),
    DEFECT_AS(random_bits, "kernel.deterministic", KC_AROUND, "the last bit follows the clock"),
    DEFECT(sum_of_threads, "kernel.deterministic", "long sums add up in the order in which threads end"),
    DEFECT_AS(writes_input, "kernel.inputs-untouched", KC_AROUND, "a kernel normalises its input in place"),
    DEFECT(inplace_lie, "kernel.inplace", "in place is claimed for a kernel that reads back"),
    DEFECT(alias_cleared, "kernel.aliases", "an output that lies over an input is cleared first"),
    DEFECT(alias_broken, "kernel.alias-inputs", "equal inputs are taken for distinct ones"),
    DEFECT(strides_ignored, "kernel.strided-inputs", "declared strides are ignored"),
    DEFECT(strides_last, "kernel.strided-inputs", "the last dimension's stride stands for all"),
    DEFECT(stride_zero, "kernel.strided-inputs", "a stride of 0 is taken for none"),
    DEFECT(strides_three, "kernel.strided-inputs", "dimensions before the last three are taken as packed"),
    DEFECT(offset_vectors, "kernel.any-offset", "a slice is read from the vector that it begins in"),
    DEFECT(offset_dropped, "kernel.offset-tensors", "a tensor's offset is taken in 128 bytes"),
    DEFECT(offset_20_bits, "kernel.offset-tensors", "a tensor's offset is cut to 20 bits"),
    DEFECT(offset_26_bits, "kernel.offset-tensors", "a tensor's offset is cut to 26 bits"),
    DEFECT_AS(empty_refused, "kernel.empty-tensor", KC_AROUND, "an empty tensor is an error"),
    DEFECT(rank_four, "kernel.ranks", "rank over 4 reads wrong dims"),
    DEFECT(vector_tail, "kernel.odd-shapes", "n % 8 elements are left out"),
    DEFECT(matmul_tail, "kernel.odd-products", "columns past the last tile are wrong"),
    DEFECT(index_22, "kernel.large", "indices have 22 bits"),
    DEFECT(rows_16, "kernel.large", "a grid has 65535 rows at most"),
    DEFECT(elements_24, "kernel.large", "a grid has 2^24 elements at most"),
    DEFECT(capacity, "kernel.dynamic-output", "the capacity is reported instead of the count"),
    DEFECT(host_args_late, "kernel.host-args", "host arguments are read when the work runs"),
    DEFECT(axes_late, "kernel.host-args", "axes alone are read when the work runs"),
    DEFECT(host_values_kept, "kernel.host-values", "host arguments of the first launch serve for all"),
    DEFECT(replay_new_values, "kernel.host-values-recorded", "a recording takes the host arguments of the last launch"),
    DEFECT(host_output_wrong, "kernel.host-outputs", "a host output is written shifted"),
    DEFECT(constants_lost, "kernel.constants", "prepacked constants are used up by the first run"),
    DEFECT(taken_lie, "kernel.taken", "weights are said to be taken, and were not kept"),
    DEFECT(constants_late, "kernel.constants-in-create", "a launch asks for a constant again"),
    DEFECT(weights_by_address, "kernel.constant-inputs", "weights are kept by the address of the constant"),
    DEFECT(weights_by_hash, "kernel.constant-inputs", "weights are kept by a hash of their first bytes"),
    DEFECT(weights_shared, "kernel.constant-inputs", "equal weights go with the first instance that ends"),
    DEFECT(weights_of_supports, "kernel.constant-lifetime", "weights are read where supports saw them"),
    DEFECT(weights_of_cost, "kernel.constant-lifetime", "weights are those that cost has read"),
    DEFECT(attributes_by_op, "kernel.attributes-apart", "attributes are kept by the op's name"),
    DEFECT(attributes_printed, "kernel.attributes-apart", "attributes are kept by a key of six digits"),
    DEFECT(lists_by_length, "kernel.attributes-apart", "lists are kept by their length and first element"),
    DEFECT(default_zero, "kernel.default-attributes", "absent attributes are 0"),
};
/* clang-format on */

KC_AREA(kernel, "Kernels: definitions, instances, launches");
