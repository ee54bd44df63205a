/* tables.h - the tables of all op sets, and the macros in which their rows are written. */
#ifndef KEEL_TABLES_H
#define KEEL_TABLES_H

#include <kd/help.h>

#include "ops/registry.h"
#include "ops/runtime.h"
#include "opsets/shapes.h"

/* for ops whose output has the input's type, or that of a nested function, or none */
#define keel_shape_none NULL
#define RUNTIME_AS(kind, name, since, params, attrs, shape, values, function) \
  {                                                                           \
    NULL, name, since, "any", params, attrs, keel_shape_##shape, values, 0,   \
        kind, function                                                        \
  }
#define RUNTIME(...) RUNTIME_AS(KEEL_BY_HOST, __VA_ARGS__)

/* The members of a keel_op_table. */
#define KEEL_TABLE_ROWS(list)  .rows = list, .row_count = KEEL_COUNT_OF(list)
#define KEEL_TABLE_RULES(list) .rules = list, .rule_count = KEEL_COUNT_OF(list)
#define KEEL_TABLE_BODIES(list) \
  .bodies = list, .body_count = KEEL_COUNT_OF(list)
#define KEEL_TABLE_UPGRADES(list) \
  .upgrades = list, .upgrade_count = KEEL_COUNT_OF(list)

/* The tables of all op sets. */
#define KEEL_OPS(name) extern const keel_op_table keel_ops_##name;
#include "opsets/tables.def"

#endif /* KEEL_TABLES_H */
