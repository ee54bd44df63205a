/* resource.c - ops on variables, counters and tables: what they do is documented in
 * keel/op.h. */
#include "device/context.h"
#include "device/device.h"
#include "memory/access.h"
#include "opsets/tables.h"

#include "ops/runtime.h"
#include "values/resource.h"

/* Puts "VariableAssign "node": " before the message. */
static keel_status told(const keel_host_call *call, keel_status status) {
  if (status == KD_OK) return KD_OK;
  char text[512];
  snprintf(text, sizeof text, "%s", keel_message());
  return keel_call_fail(call, status, "%s", text);
}

static keel_status resource_in(const keel_host_call *call,
                               keel_resource_kind kind,
                               keel_resource **out_resource) {
  keel_tensor *value = call->input_count ? call->inputs[0] : NULL;
  return told(call, keel_resource_of(value, kind, out_resource));
}

/* An input that must be there, and be a tensor. */
static keel_status tensor_in(const keel_host_call *call, uint32_t index,
                             keel_tensor **out_tensor) {
  const keel_schema *schema = call->op->schema;
  keel_tensor *value = index < call->input_count ? call->inputs[index] : NULL;
  if (!value || value->kind != KEEL_DATA)
    return keel_call_fail(call, KD_INVALID_ARGUMENT, "%s %s",
                          keel_schema_input(schema, index)->name,
                          value ? "is not a tensor" : "is missing");
  *out_tensor = value;
  return KD_OK;
}

/* ---- variables ---------------------------------------------------------------- */

/* The tensor, row-major, in the variable's memory; all host-addressable memory counts as
 * the same. */
static keel_status resource_bring(keel_tensor *tensor, keel_device *home,
                                  keel_tensor **out_tensor) {
  if (keel_tensor_wait_known(tensor) == KD_OK && tensor->kind == KEEL_DATA &&
      tensor->layout == KD_LAYOUT_ROW_MAJOR && keel_device_addressable(home) &&
      keel_device_addressable(keel_tensor_location(tensor))) {
    *out_tensor = keel_tensor_retain(tensor);
    return KD_OK;
  }
  return keel_tensor_to(tensor, home, out_tensor);
}

static keel_status run_variable(keel_host_call *call) {
  keel_tensor *initial = NULL;
  KEEL_TRY(tensor_in(call, 0, &initial));
  keel_device *home = call->scope ? call->scope : keel_tensor_location(initial);
  bool any_shape = keel_attr_int(call->op, "any_shape", 0) != 0;
  keel_tensor *here = NULL;
  keel_status status = resource_bring(initial, home, &here);
  if (status == KD_OK)
    status = keel_variable_create(here, home, any_shape, &call->outputs[0]);
  keel_tensor_release(here);
  return told(call, status);
}

static keel_status run_variable_read(keel_host_call *call) {
  keel_resource *variable = NULL;
  KEEL_TRY(resource_in(call, KEEL_VARIABLE, &variable));
  call->outputs[0] = keel_variable_read(variable);
  return KD_OK;
}

static keel_status run_variable_assign(keel_host_call *call) {
  keel_resource *variable = NULL;
  keel_tensor *value = NULL;
  KEEL_TRY(resource_in(call, KEEL_VARIABLE, &variable));
  KEEL_TRY(tensor_in(call, 1, &value));
  keel_tensor *here = NULL;
  keel_status status =
      resource_bring(value, keel_variable_home(variable), &here);
  if (status == KD_OK) status = keel_variable_assign(variable, here);
  keel_tensor_release(here);
  KEEL_TRY(told(call, status));
  call->outputs[0] = keel_tensor_retain(value);
  return KD_OK;
}

/* ---- counters ----------------------------------------------------------------- */

static keel_status integer_out(const keel_host_call *call, int64_t number) {
  return keel_tensor_create(call->context, KD_I64, 0, NULL, &number,
                            &call->outputs[0]);
}

static keel_status run_counter(keel_host_call *call) {
  int64_t start = 0;
  KEEL_TRY(keel_call_int(call, 0, 0, &start));
  return told(call,
              keel_counter_create(call->context, start, &call->outputs[0]));
}

static keel_status run_counter_add(keel_host_call *call) {
  keel_resource *counter = NULL;
  int64_t by = 1;
  KEEL_TRY(resource_in(call, KEEL_COUNTER, &counter));
  KEEL_TRY(keel_call_int(call, 1, 1, &by));
  return integer_out(call, keel_counter_add(counter, by));
}

/* ---- tables ------------------------------------------------------------------- */

static keel_status run_table(keel_host_call *call) {
  keel_tensor *absent = NULL, *here = NULL;
  KEEL_TRY(tensor_in(call, 0, &absent));
  keel_status status = keel_tensor_to_host(absent, &here);
  if (status == KD_OK) status = keel_table_create(here, &call->outputs[0]);
  keel_tensor_release(here);
  return told(call, status);
}

/* The keys, in host memory, to be released. */
static keel_status keys_in(const keel_host_call *call, keel_tensor **out_keys) {
  keel_tensor *given = NULL;
  KEEL_TRY(tensor_in(call, 1, &given));
  if (given->type->dtype != KD_I64)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "keys are %s and must be i64",
                          kd_dtype_name(given->type->dtype));
  return told(call, keel_tensor_to_host(given, out_keys));
}

/* Does something with the table and keys of a call. */
static keel_status by_keys(keel_host_call *call,
                           keel_status (*act)(const keel_host_call *call,
                                              keel_resource *table,
                                              const keel_tensor *keys)) {
  keel_resource *table = NULL;
  keel_tensor *keys = NULL;
  KEEL_TRY(resource_in(call, KEEL_TABLE, &table));
  KEEL_TRY(keys_in(call, &keys));
  keel_status status = act(call, table, keys);
  keel_tensor_release(keys);
  return status;
}

/* The shape of a row for each key: the keys' shape, then the row's. */
static keel_status rows_type(const keel_host_call *call,
                             const keel_resource *table,
                             const keel_tensor *keys,
                             const keel_type **out_type) {
  const keel_type *row = keel_table_row(table), *of = keys->type;
  int64_t dims[2 * KD_MAX_RANK];
  memcpy(dims, of->dims, of->rank * sizeof *dims);
  memcpy(dims + of->rank, row->dims, row->rank * sizeof *dims);
  return told(call,
              keel_type_of(row->dtype, of->rank + row->rank, dims, out_type));
}

static keel_status insert(const keel_host_call *call, keel_resource *table,
                          const keel_tensor *keys) {
  char want[200], got[200];
  keel_tensor *given = NULL, *rows = NULL;
  const keel_type *type = NULL;
  KEEL_TRY(tensor_in(call, 2, &given));
  KEEL_TRY(rows_type(call, table, keys, &type));
  if (given->type != type)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "rows for these keys are %s, not %s",
                          keel_type_text(type, want, sizeof want),
                          keel_type_text(given->type, got, sizeof got));
  KEEL_TRY(told(call, keel_tensor_to_host(given, &rows)));
  keel_status status = told(
      call,
      keel_table_insert(table, keys->data, keys->type->elements, rows->data));
  keel_tensor_release(rows);
  return status == KD_OK ? integer_out(call, keel_table_count(table)) : status;
}

static keel_status run_table_insert(keel_host_call *call) {
  return by_keys(call, insert);
}

static keel_status resource_find(const keel_host_call *call,
                                 keel_resource *table,
                                 const keel_tensor *keys) {
  const keel_type *type = NULL, *found = NULL;
  keel_heap *host = &call->context->host;
  KEEL_TRY(rows_type(call, table, keys, &type));
  KEEL_TRY(keel_tensor_on(host, type, &call->outputs[0]));
  if (call->output_count > 1) {
    KEEL_TRY(keel_type_of(KD_BOOL, keys->type->rank, keys->type->dims, &found));
    KEEL_TRY(keel_tensor_on(host, found, &call->outputs[1]));
  }
  keel_table_find(table, keys->data, keys->type->elements,
                  call->outputs[0]->data,
                  found ? call->outputs[1]->data : NULL);
  return KD_OK;
}

static keel_status run_table_find(keel_host_call *call) {
  return by_keys(call, resource_find);
}

static keel_status erase(const keel_host_call *call, keel_resource *table,
                         const keel_tensor *keys) {
  return integer_out(call,
                     keel_table_erase(table, keys->data, keys->type->elements));
}

static keel_status run_table_erase(keel_host_call *call) {
  return by_keys(call, erase);
}

static keel_status run_table_entries(keel_host_call *call) {
  keel_resource *table = NULL;
  keel_tensor *rows = NULL;
  KEEL_TRY(resource_in(call, KEEL_TABLE, &table));
  KEEL_TRY(told(call, keel_table_entries(table, &call->outputs[0], &rows)));
  if (call->output_count > 1)
    call->outputs[1] = rows;
  else
    keel_tensor_release(rows);
  return KD_OK;
}

/* ---- rows ---- */

#define STATE(name, flag, params, attrs, function)                   \
  {                                                                  \
    "keel", name, 1, "any", params, attrs, keel_shape_none, 0, flag, \
        KEEL_BY_HOST, run_##function                                 \
  }

static const keel_schema_row rows[] = {
    /* what keeps its content between runs; see keel/op.h */
    STATE("Variable", KEEL_OP_MAKES, "initial:any -> variable:any",
          "any_shape:i=0", variable),
    STATE("VariableRead", KEEL_OP_READS, "variable:any -> value:any", "",
          variable_read),
    STATE("VariableAssign", KEEL_OP_WRITES,
          "variable:any value:any -> assigned:any", "", variable_assign),
    STATE("Counter", KEEL_OP_MAKES, "start:i64? -> counter:any", "", counter),
    STATE("CounterAdd", KEEL_OP_WRITES, "counter:any by:i64? -> before:i64", "",
          counter_add),
    STATE("Table", KEEL_OP_MAKES, "absent:any -> table:any", "", table),
    STATE("TableInsert", KEEL_OP_WRITES,
          "table:any keys:i64 rows:any -> count:i64", "", table_insert),
    STATE("TableFind", KEEL_OP_READS,
          "table:any keys:i64 -> rows:any found:bool", "", table_find),
    STATE("TableErase", KEEL_OP_WRITES, "table:any keys:i64 -> erased:i64", "",
          table_erase),
    STATE("TableEntries", KEEL_OP_READS, "table:any -> keys:i64 rows:any", "",
          table_entries),
};

const keel_op_table keel_ops_state = {KEEL_TABLE_ROWS(rows)};
