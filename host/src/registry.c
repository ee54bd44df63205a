/* registry.c - what this libkeel is put together of: op sets, passes, and the rooms that the engine
 * reaches through hooks. */
#include "eager/on_strings.h"
#include "frontends/mlir/mlir.h"
#include "ops/tables.h"
#include "passes/list.h"
#include "program/draft.h"

static const keel_op_table *const tables[] = {
#define KEEL_OPS(name) &keel_ops_##name,
#include "ops/tables.def"
};

static keel_status write_text(const keel_function *main, keel_device *device,
                              FILE *file) {
  return keel_mlir_write(main, device, KEEL_MLIR_SHORT, file);
}

/* Also before main: keel_pass_name and others need no open runtime. */
__attribute__((constructor)) void keel_registry_fill(void) {
  static keel_registry registry = {.tables = tables,
                                   .table_count = KEEL_COUNT_OF(tables),
                                   .passes = keel_all_passes,
                                   .upgrade = keel_draft_upgrade,
                                   .has_strings = keel_concerns_strings,
                                   .call_on_strings = keel_call_on_strings,
                                   .write_text = write_text};
  registry.pass_count = keel_all_passes_count;
  keel_registry_use(&registry);
}
