/* registry.c - the parts that this libkeel is made of: op sets, passes, and the rooms that the
 * engine reaches through hooks. */
#include "frontends/mlir/mlir.h"
#include "opsets/onnx/passes.h"
#include "opsets/onnx/upgrade.h"
#ifdef KEEL_OPSET_STRINGS
#include "opsets/strings/on_strings.h"
#endif
#include "opsets/tables.h"
#include "passes/passes.h"

static const keel_op_table *const tables[] = {
#define KEEL_OPS(name) &keel_ops_##name,
#include "opsets/tables.def"
};

/* All passes, in their order. */
static const keel_pass passes[] = {
    {"place", "places nodes by the user's rules", .needed = true, .once = true,
     .over_all = keel_pass_place},
    {"sort", "sorts nodes topologically", .needed = true,
     .plain = keel_function_sort},
    {"prune", "removes unneeded nodes", .plain = keel_pass_prune},
    {"types", "infers types as far as possible", .needed = true,
     .plain = keel_function_types},
    {"expand", "replaces ops that devices do not have by simpler ones",
     .needed = true, .on_device = keel_pass_expand},
    {"einsum", "rewrites Einsum as matrix products",
     .on_device = keel_pass_einsum},
    {"algebra", "removes no-ops, merges changes of shape",
     .plain = keel_pass_algebra},
    {"quantise", "computes quantised ops on bytes",
     .on_device = keel_pass_quantise},
    {"packed", "keeps weights of 8, 4 and 2 bits packed",
     .on_device = keel_pass_packed},
    {"widen", "keeps f16 in f32 on devices that compute in f32 anyway",
     .on_device = keel_pass_widen},
    {"fold", "folds constants, removes Identity", .over_all = keel_pass_fold},
    {"cse", "eliminates common subexpressions", .plain = keel_pass_cse},
    {"einsum", "rewrites Einsum again, now that shapes are known",
     .on_device = keel_pass_einsum},
    {"algebra", "removes no-ops again, now that shapes are folded",
     .plain = keel_pass_algebra},
    {"pads", "merges zero padding into convolutions",
     .on_device = keel_pass_pads},
    {"taps", "removes convolution taps that see only padding",
     .plain = keel_pass_taps},
    {"cost", "places nodes by cost, if requested",
     .requested = KEEL_PLAN_BY_COST, .shapes = true, .compilers = true,
     .plain = keel_pass_place_by_cost},
    {"patterns", "recognises ops that models write with several",
     .on_device = keel_pass_patterns},
    {"attention", "fuses attention, on devices that have the op",
     .on_device = keel_pass_attention},
    {"fold", "folds the constants of attention masks",
     .over_all = keel_pass_fold},
    {"fuse", "fuses the ops after a convolution into it",
     .on_device = keel_pass_fuse},
    {"transposed", "fuses adjacent transposes into matrix products",
     .on_device = keel_pass_transposed},
    {"depthwise", "lets depthwise convolutions work on channels last",
     .on_device = keel_pass_depthwise},
    {"products", "fuses the ops after a matrix product into it",
     .on_device = keel_pass_products},
    {"prune", "removes nodes that earlier passes left unneeded",
     .plain = keel_pass_prune},
    {"regions", "compiles regions that serve all sizes", .last = true,
     .open = true, .compilers = true, .over_all = keel_pass_open_regions},
    {"layout", "keeps tensors in the device's own layouts between kernels",
     .last = true, .shapes = true, .on_device = keel_pass_layout},
    {"regions", "compiles regions for devices that have a compiler",
     .last = true, .shapes = true, .compilers = true,
     .over_all = keel_pass_regions},
    {"transfer", "inserts copies between memories, one per value and device",
     .last = true, .shapes = true, .over_all = keel_pass_transfer},
    {"parts",
     "turns slices and transposes into views, where kernels accept them",
     .last = true, .shapes = true, .on_device = keel_pass_parts},
    {"outline", "lets a device record its ops between nodes elsewhere",
     .last = true, .shapes = true, .over_all = keel_pass_outline},
};

static keel_status write_text(const keel_function *main, keel_device *device,
                              FILE *file) {
  return keel_mlir_write(main, device, KEEL_MLIR_SHORT, file);
}

static const char left_out[] =
    ""
#ifndef KEEL_OPSET_STRINGS
    " strings"
#endif
#ifndef KEEL_OPSET_PICTURES
    " pictures"
#endif
#ifndef KEEL_OPSET_MICROSOFT
    " microsoft"
#endif
#ifndef KEEL_OPSET_ML
    " ml"
#endif
#ifndef KEEL_OPSET_RANKS
    " ranks"
#endif
    ;

/* Before main, as keel_pass_name and others need no open runtime; keel_open, which calls it as well,
 * finds it done. */
__attribute__((constructor)) void keel_registry_fill(void) {
  static const keel_registry registry = {
      .tables = tables,
      .table_count = KEEL_COUNT_OF(tables),
      .passes = passes,
      .pass_count = KEEL_COUNT_OF(passes),
      .upgrade = keel_draft_upgrade,
#ifdef KEEL_OPSET_STRINGS
      .has_strings = keel_concerns_strings,
      .call_on_strings = keel_call_on_strings,
#endif
      .left_out = left_out,
      .write_text = write_text};
  if (!keel_registry_get()) keel_registry_use(&registry);
}
