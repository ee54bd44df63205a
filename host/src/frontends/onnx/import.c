/* import.c - a ModelProto becomes a program.
 *
 * Each graph has a scope of names. A nested graph's scope asks the one around
 * it, and what it finds there becomes a capture (see program/function.h). A
 * model's own functions are written out where they are called. */
#include "import.h"
#include "annotations.h"
#include "device/context.h"
#include "exchange.h"
#include "frontends/frontends.h"

#include "index.h"
#include "ops/vendor.h"
#include "program/draft.h"

#define NESTING_MOST 100 /* functions that call functions, graphs in graphs */
#define NODES_MOST   4000000
/* Functions that call functions write themselves out to exponentially many nodes: a file
 * may come to so many, and to so many more for each byte that it has. */
#define NODES_FREE     10000
#define NODES_PER_BYTE 2

typedef struct scope scope;

typedef struct importer {
  keel_context *context;
  keel_program *program;
  const char *path;
  const onnx_model *model;
  keel_onnx_bytes bytes; /* of which it was unpacked */
  uint64_t nodes, most;  /* added so far, functions written out; and at most */
  uint32_t depth;
  onnx_index functions;      /* of the model */
  onnx_index opsets, *inner; /* imports: the model's; by function, or empty */
  onnx_shared tensors;       /* of function bodies */
} importer;

typedef struct entry {
  const char *name;
  uint32_t value;
  bool open; /* the output of a function that its body has yet to make */
} entry;

struct scope {
  importer *all;
  scope *around; /* of a nested graph */
  keel_function *function;
  entry *entries;       /* by hash of the name, open addressing */
  uint32_t count, room; /* room is a power of two */
  uint32_t *captured;   /* values of `around`, in the order of the captures */
  uint32_t captured_count, captured_room;
  /* of a function that is written out: its call, for attribute references */
  const onnx_node *call;
  scope *caller;
  uint32_t body; /* its place among the model's, or KEEL_ABSENT */
};

static keel_status bad(const importer *all, keel_status status,
                       const char *format, ...) KD_PRINTF(3, 4);

static keel_status bad(const importer *all, keel_status status,
                       const char *format, ...) {
  char text[900];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return keel_fail(status, "%s: %s", all->path, text);
}

/* ---- scopes --------------------------------------------------------------- */

static entry *slot_of(const scope *scope, const char *name) {
  uint64_t at = keel_hash_string(KEEL_HASH_SEED, name);
  while (scope->entries[at & (scope->room - 1)].name &&
         strcmp(scope->entries[at & (scope->room - 1)].name, name) != 0)
    at++;
  return &scope->entries[at & (scope->room - 1)];
}

static keel_status scope_add(scope *scope, const char *name, uint32_t value) {
  if (scope->count * 2 >= scope->room) {
    uint32_t room = scope->room ? scope->room * 2 : 64, old = scope->room;
    entry *entries = scope->entries;
    scope->entries = calloc(room, sizeof *entries);
    if (!scope->entries) {
      scope->entries = entries;
      return keel_no_memory(room * sizeof *entries);
    }
    scope->room = room;
    for (uint32_t i = 0; i < old; i++)
      if (entries[i].name) *slot_of(scope, entries[i].name) = entries[i];
    free(entries);
  }
  entry *slot = slot_of(scope, name);
  if (slot->name)
    return bad(scope->all, KD_DATA_LOSS, "value \"%s\" is made twice", name);
  *slot = (entry){name, value, false};
  scope->count++;
  return KD_OK;
}

/* The output of a node: a new value, or the one that the call of this function has for
 * it. */
static keel_status scope_make(scope *scope, const char *name) {
  entry *slot = scope->room ? slot_of(scope, name) : NULL;
  if (slot && slot->name && slot->open) {
    slot->open = false;
    return KD_OK;
  }
  uint32_t value = keel_function_value(scope->function, name);
  if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  return scope_add(scope, name, value);
}

/* Adds a value of that name. */
static keel_status scope_new(scope *scope, const char *name,
                             uint32_t *out_value) {
  uint32_t value = keel_function_value(scope->function, name);
  if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  *out_value = value;
  return scope_add(scope, name, value);
}

static uint32_t scope_find(const scope *scope, const char *name) {
  const entry *slot = scope->room ? slot_of(scope, name) : NULL;
  return slot && slot->name ? slot->value : KEEL_ABSENT;
}

/* Makes an outer value an input of the nested function. */
static keel_status capture(scope *scope, const char *name, uint32_t outer,
                           uint32_t *out_value) {
  if (!KEEL_ROOM(scope->captured, scope->captured_count, scope->captured_room))
    return KD_OUT_OF_MEMORY;
  KEEL_TRY(scope_new(scope, name, out_value));
  KEEL_TRY(keel_function_input(scope->function, *out_value, NULL));
  scope->function->capture_count++;
  scope->captured[scope->captured_count++] = outer;
  return KD_OK;
}

/* The value of a name here or around; KD_NOT_FOUND without a message. */
static keel_status resolve(scope *scope, const char *name,
                           uint32_t *out_value) {
  *out_value = scope_find(scope, name);
  if (*out_value != KEEL_ABSENT) return KD_OK;
  uint32_t outer = KEEL_ABSENT;
  if (!scope->around) return KD_NOT_FOUND;
  KEEL_TRY(resolve(scope->around, name, &outer));
  const keel_value_info *info = &scope->around->function->values[outer];
  if (info->constant) { /* constants are known everywhere */
    *out_value = keel_function_constant(scope->function, name, info->constant);
    return *out_value == KEEL_ABSENT ? KD_OUT_OF_MEMORY
                                     : scope_add(scope, name, *out_value);
  }
  return capture(scope, name, outer, out_value);
}

/* The handle of the rank that runs the program: an input that the first exchange adds. */
static keel_status find_member(scope *scope, uint32_t *out_value) {
  const keel_port port = {.name = KEEL_ONNX_MEMBER,
                          .rank = KEEL_RANK_UNKNOWN,
                          .flags = KEEL_PORT_RESOURCE};
  *out_value = scope_find(scope, KEEL_ONNX_MEMBER);
  if (*out_value != KEEL_ABSENT) return KD_OK;
  uint32_t outer = KEEL_ABSENT;
  if (scope->around) {
    KEEL_TRY(find_member(scope->around, &outer));
    return capture(scope, KEEL_ONNX_MEMBER, outer, out_value);
  }
  if (scope->caller) { /* a model's function, written out in its caller's */
    KEEL_TRY(find_member(scope->caller, out_value));
    return scope_add(scope, KEEL_ONNX_MEMBER, *out_value);
  }
  KEEL_TRY(scope_new(scope, KEEL_ONNX_MEMBER, out_value));
  return keel_function_input(scope->function, *out_value, &port);
}

static void scope_free(scope *scope) {
  free(scope->entries);
  free(scope->captured);
}

/* ---- types of inputs and outputs ------------------------------------------ */

/* dims and symbols have room for KD_MAX_RANK. */
static void read_port(const onnx_value_info *info, keel_port *port,
                      int64_t *dims, const char **symbols) {
  *port = (keel_port){.name = info->name ? info->name : "",
                      .rank = KEEL_RANK_UNKNOWN};
  const Onnx__TypeProto *type = info->type;
  if (!type) return;
  if (type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE &&
      type->optional_type && type->optional_type->elem_type) {
    port->flags |= KEEL_PORT_OPTIONAL;
    type = type->optional_type->elem_type;
  }
  /* a map is a sequence of its keys and its values (passes/expand_ml_maps.c) */
  if (type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE ||
      type->value_case == ONNX__TYPE_PROTO__VALUE_MAP_TYPE)
    port->flags |= KEEL_PORT_SEQUENCE;
  const Onnx__TypeProto__Tensor *tensor =
      type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
          ? type->tensor_type
          : NULL;
  if (!tensor) return;
  port->dtype = (kd_dtype)tensor->elem_type;
  if (!tensor->shape || tensor->shape->n_dim > KD_MAX_RANK) return;
  port->rank = (uint32_t)tensor->shape->n_dim;
  port->dims = dims;
  for (uint32_t i = 0; i < port->rank; i++) {
    const Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[i];
    bool fixed = dim->value_case ==
                     ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
                 dim->dim_value >= 0;
    bool named =
        dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    dims[i] = fixed ? dim->dim_value : -1;
    symbols[i] = named ? dim->dim_param : NULL;
  }
  port->symbols = symbols;
}

/* ---- attributes ----------------------------------------------------------- */

static keel_status import_graph(const onnx_graph *graph, scope *inner);

/* A tensor, retained. What stands in a function is read once for all its calls. mapping: of
 * the file, where it may stay there. */
static keel_status read_tensor(const scope *scope, const onnx_tensor *proto,
                               keel_mapping *mapping,
                               keel_tensor **out_tensor) {
  importer *all = scope->all;
  bool inside = scope->body != KEEL_ABSENT;
  keel_tensor *known = inside ? onnx_shared_find(&all->tensors, proto) : NULL;
  if (known) {
    *out_tensor = keel_tensor_retain(known);
    return KD_OK;
  }
  KEEL_TRY(
      keel_onnx_tensor(all->context, all->path, proto, mapping, out_tensor));
  keel_onnx_bytes raw = keel_onnx_raw(proto);
  keel_file_evict(raw.data, raw.size);
  keel_status status =
      inside ? onnx_shared_add(&all->tensors, proto, *out_tensor) : KD_OK;
  if (status != KD_OK) keel_tensor_release(*out_tensor);
  return status;
}

static char *copy_bytes(keel_arena *arena, const ProtobufCBinaryData *bytes) {
  char *copy = keel_arena_take(arena, bytes->len + 1);
  if (copy && bytes->len) memcpy(copy, bytes->data, bytes->len);
  return copy;
}

static keel_status read_strings(const importer *all, const onnx_attr *from,
                                keel_attr *to) {
  keel_arena *arena = &all->program->arena;
  const char **strings =
      keel_arena_take(arena, (from->n_strings + 1) * sizeof *strings);
  if (!strings) return KD_OUT_OF_MEMORY;
  for (size_t i = 0; i < from->n_strings; i++)
    if (!(strings[i] = copy_bytes(arena, &from->strings[i])))
      return KD_OUT_OF_MEMORY;
  to->strings = strings;
  to->count = (uint32_t)from->n_strings;
  return KD_OK;
}

/* The kind, which very old files leave to be told by what is there. */
static uint32_t kind_of(const onnx_attr *attr) {
  if (attr->has_type) return (uint32_t)attr->type;
  return attr->has_f       ? KD_ATTR_FLOAT
         : attr->has_i     ? KD_ATTR_INT
         : attr->has_s     ? KD_ATTR_STRING
         : attr->t         ? KD_ATTR_TENSOR
         : attr->g         ? KD_ATTR_GRAPH
         : attr->n_floats  ? KD_ATTR_FLOATS
         : attr->n_ints    ? KD_ATTR_INTS
         : attr->n_strings ? KD_ATTR_STRINGS
                           : KD_ATTR_ABSENT;
}

/* Of which type an Optional without an element would be: nothing depends on it. */
static bool says_nothing(const onnx_node *node, const onnx_attr *attr) {
  return kind_of(attr) == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TYPE_PROTO &&
         attr->name && !strcmp(attr->name, "type") && node->op_type &&
         !strcmp(node->op_type, "Optional");
}

/* Graph attributes are imported by the caller. */
static keel_status read_attr(const scope *scope, const onnx_node *node,
                             const onnx_attr *from, keel_attr *to) {
  const importer *all = scope->all;
  *to = (keel_attr){.name = from->name, .kind = kind_of(from)};
  switch (to->kind) {
    case KD_ATTR_FLOAT:
      to->f = from->f;
      return KD_OK;
    case KD_ATTR_INT:
      to->i = from->i;
      return KD_OK;
    case KD_ATTR_STRING:
      to->s = copy_bytes(&all->program->arena, &from->s);
      return to->s ? KD_OK : KD_OUT_OF_MEMORY;
    case KD_ATTR_FLOATS:
      to->floats = from->floats;
      to->count = (uint32_t)from->n_floats;
      return KD_OK;
    case KD_ATTR_INTS:
      to->ints = from->ints;
      to->count = (uint32_t)from->n_ints;
      return KD_OK;
    case KD_ATTR_STRINGS:
      return read_strings(all, from, to);
    case KD_ATTR_TENSOR:
      if (!from->t)
        return bad(all, KD_DATA_LOSS,
                   "node \"%s\": attribute \"%s\" has no tensor",
                   node->name ? node->name : "", from->name);
      return read_tensor(scope, from->t, NULL, &to->tensor);
    case KD_ATTR_GRAPH:
      return from->g ? KD_OK
                     : bad(all, KD_DATA_LOSS,
                           "node \"%s\": attribute \"%s\" has no graph",
                           node->name ? node->name : "", from->name);
    default:
      return bad(all, KD_UNIMPLEMENTED,
                 "node \"%s\" (%s): attribute \"%s\" is of kind %u, which is"
                 " not supported",
                 node->name ? node->name : "",
                 node->op_type ? node->op_type : "", from->name,
                 (unsigned)to->kind);
  }
}

/* The attribute that a function's body refers to, of its call. NULL: the call
 * does not give it. */
static const onnx_attr *referred(const scope *scope, const onnx_attr *attr) {
  while (attr && attr->ref_attr_name && *attr->ref_attr_name) {
    const onnx_node *call = scope->call;
    const onnx_attr *found = NULL;
    for (size_t i = 0; call && i < call->n_attribute; i++)
      if (call->attribute[i]->name &&
          !strcmp(call->attribute[i]->name, attr->ref_attr_name))
        found = call->attribute[i];
    scope = scope->caller;
    attr = found;
    if (!scope) return found;
  }
  return attr;
}

/* ---- nodes ---------------------------------------------------------------- */

/* The imports of the model, or of a function, which are indexed at first use. */
static keel_status imports_of(const scope *scope, const onnx_index **out_index,
                              Onnx__OperatorSetIdProto *const **out_list) {
  importer *all = scope->all;
  const onnx_model *model = all->model;
  bool inside = scope->body != KEEL_ABSENT;
  const onnx_function *body = inside ? model->functions[scope->body] : NULL;
  size_t count = inside ? body->n_opset_import : model->n_opset_import;
  onnx_index *index = inside ? &all->inner[scope->body] : &all->opsets;
  *out_list = inside ? body->opset_import : model->opset_import;
  *out_index = index;
  if (index->room) return KD_OK;
  for (size_t i = 0; i < count; i++) {
    const char *domain = (*out_list)[i]->domain;
    if (!domain || !strcmp(domain, "ai.onnx")) domain = "";
    KEEL_TRY(onnx_index_add(index, domain, "", (uint32_t)i));
  }
  return KD_OK;
}

/* The version of a domain that a node is written for; 0: nothing says. */
static keel_status opset_of(const scope *from, const char *domain,
                            int64_t *out_opset) {
  const scope model = {.all = from->all, .body = KEEL_ABSENT};
  const onnx_index *index = NULL;
  Onnx__OperatorSetIdProto *const *list = NULL;
  *out_opset = 0;
  KEEL_TRY(imports_of(from, &index, &list));
  uint32_t at = onnx_index_find(index, domain, "");
  if (at == KEEL_ABSENT && from->body != KEEL_ABSENT) {
    KEEL_TRY(imports_of(&model, &index, &list));
    at = onnx_index_find(index, domain, "");
  }
  if (at != KEEL_ABSENT) *out_opset = list[at]->version;
  return KD_OK;
}

static bool device_has(const importer *all, const char *domain,
                       const char *op) {
  for (uint32_t i = 0; i < all->context->device_count; i++)
    if (keel_device_kernels(all->context->devices[i],
                            *domain ? domain : "ai.onnx", op))
      return keel_op_find(all->context, domain, op) != NULL;
  return false;
}

static keel_status import_nodes(scope *scope, onnx_node *const *nodes,
                                size_t count);

/* Inputs and outputs of a node, by name; room for those of an upgrade. */
static keel_status bind_values(scope *scope, const onnx_node *node,
                               keel_draft *draft) {
  keel_arena *arena = &scope->all->program->arena;
  draft->inputs = keel_arena_take(
      arena, (node->n_input + KEEL_DRAFT_EXTRA) * sizeof(uint32_t));
  draft->outputs =
      keel_arena_take(arena, (node->n_output + 1) * sizeof(uint32_t));
  if (!draft->inputs || !draft->outputs) return KD_OUT_OF_MEMORY;
  for (size_t i = 0; i < node->n_input; i++) {
    draft->inputs[i] = KEEL_ABSENT;
    if (!*node->input[i]) continue;
    keel_status status = resolve(scope, node->input[i], &draft->inputs[i]);
    if (status == KD_NOT_FOUND)
      return bad(scope->all, KD_DATA_LOSS,
                 "node \"%s\" (%s) reads \"%s\", which nothing makes",
                 draft->name, draft->op, node->input[i]);
    KEEL_TRY(status);
  }
  draft->input_count = (uint32_t)node->n_input;
  while (draft->input_count &&
         draft->inputs[draft->input_count - 1] == KEEL_ABSENT)
    draft->input_count--;
  for (size_t i = 0; i < node->n_output; i++)
    draft->outputs[i] =
        *node->output[i] ? scope_find(scope, node->output[i]) : KEEL_ABSENT;
  draft->output_count = draft->outputs_written = (uint32_t)node->n_output;
  while (draft->output_count &&
         draft->outputs[draft->output_count - 1] == KEEL_ABSENT)
    draft->output_count--;
  return KD_OK;
}

static keel_status add_captures(keel_draft *draft, const scope *inner,
                                keel_arena *arena) {
  uint32_t count = draft->input_count + inner->captured_count;
  uint32_t *inputs =
      keel_arena_take(arena, (count + KEEL_DRAFT_EXTRA) * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  memcpy(inputs, draft->inputs, draft->input_count * sizeof *inputs);
  if (inner->captured_count)
    memcpy(inputs + draft->input_count, inner->captured,
           inner->captured_count * sizeof *inputs);
  draft->inputs = inputs;
  draft->input_count = count;
  return KD_OK;
}

static keel_status read_attrs(scope *scope, const onnx_node *node,
                              keel_draft *draft) {
  importer *all = scope->all;
  for (size_t i = 0; i < node->n_attribute; i++) {
    const onnx_attr *attr = referred(scope, node->attribute[i]);
    if (!attr || says_nothing(node, attr)) continue;
    if (!attr->name || !node->attribute[i]->name)
      return bad(all, KD_DATA_LOSS,
                 "node \"%s\" has an attribute without a"
                 " name",
                 draft->name);
    if (draft->attr_count == KEEL_DRAFT_ATTRS)
      return bad(all, KD_DATA_LOSS, "node \"%s\" has more than %d attributes",
                 draft->name, KEEL_DRAFT_ATTRS);
    keel_attr *to = &draft->attrs[draft->attr_count];
    KEEL_TRY(read_attr(scope, node, attr, to));
    to->name = node->attribute[i]->name;
    draft->attr_count++;
    if (to->kind != KD_ATTR_GRAPH) continue;
    struct scope inner = {.all = all,
                          .around = scope,
                          .call = scope->call,
                          .caller = scope->caller,
                          .body = scope->body};
    keel_status status = import_graph(attr->g, &inner);
    draft->graphs[draft->attr_count - 1] = inner.function;
    if (status == KD_OK)
      status = add_captures(draft, &inner, &all->program->arena);
    scope_free(&inner);
    KEEL_TRY(status);
  }
  return KD_OK;
}

/* Adds the value of this graph that has the name to a draft's inputs. */
static keel_status add_named(const scope *scope, const char *name,
                             keel_draft *draft) {
  uint32_t value = scope_find(scope, name);
  if (value == KEEL_ABSENT)
    return bad(scope->all, KD_DATA_LOSS,
               "node \"%s\" (%s): its graph has no value \"%s\"", draft->name,
               draft->op, name);
  draft->inputs[draft->input_count++] = value;
  return KD_OK;
}

/* A Gradient names the values between which it is taken; they become inputs, behind its own: xs,
 * zs, y. */
static keel_status add_gradient_inputs(const scope *scope, keel_draft *draft) {
  static const char *const lists[] = {"xs", "zs", "y"};
  uint32_t count = draft->input_count + KEEL_DRAFT_EXTRA + 1;
  for (uint32_t i = 0; i < draft->attr_count; i++)
    if (draft->attrs[i].kind == KD_ATTR_STRINGS) count += draft->attrs[i].count;
  uint32_t *inputs =
      keel_arena_take(&scope->all->program->arena, count * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  memcpy(inputs, draft->inputs, draft->input_count * sizeof *inputs);
  draft->inputs = inputs;
  for (int k = 0; k < 3; k++)
    for (uint32_t i = 0; i < draft->attr_count; i++) {
      const keel_attr *attr = &draft->attrs[i];
      if (strcmp(attr->name, lists[k]) != 0) continue;
      for (uint32_t n = 0; attr->kind == KD_ATTR_STRINGS && n < attr->count;
           n++)
        KEEL_TRY(add_named(scope, attr->strings[n], draft));
      if (attr->kind == KD_ATTR_STRING && k == 2)
        KEEL_TRY(add_named(scope, attr->s, draft));
      break;
    }
  return KD_OK;
}

static bool is_gradient(const keel_draft *draft) {
  return !strcmp(draft->op, "Gradient") &&
         !strcmp(draft->domain, "ai.onnx.preview.training");
}

/* Control ops need their own inputs at fixed places before the captures. */
static void pad_inputs(keel_draft *draft) {
  uint32_t least = !strcmp(draft->op, "Loop") ? 2 : 0;
  while (draft->input_count < least)
    draft->inputs[draft->input_count++] = KEEL_ABSENT;
}

/* Counts what a node, or a call, adds; fails where that is more than such a file may. */
static keel_status count_nodes(importer *all, uint64_t count) {
  all->nodes += count;
  if (all->nodes <= all->most) return KD_OK;
  return bad(all, KD_DATA_LOSS,
             "has more than %llu nodes with its functions written out, too many"
             " for a file of its size",
             (unsigned long long)all->most);
}

static keel_status enter(importer *all, const char *name) {
  if (++all->depth <= NESTING_MOST) return KD_OK;
  return bad(all, KD_DATA_LOSS,
             "\"%s\" is nested deeper than %d, or calls itself",
             name ? name : "", NESTING_MOST);
}

/* The body's outputs are the call's values. */
static keel_status bind_outputs(scope *inner, const onnx_function *function,
                                const keel_draft *draft) {
  for (size_t i = 0; i < function->n_output; i++) {
    const char *name = function->output[i];
    if (i >= draft->output_count || draft->outputs[i] == KEEL_ABSENT) continue;
    if (scope_find(inner, name) != KEEL_ABSENT) continue; /* see pass_through */
    KEEL_TRY(scope_add(inner, name, draft->outputs[i]));
    slot_of(inner, name)->open = true;
  }
  return KD_OK;
}

/* An output that is an input, or another output, is a copy of it. */
static keel_status pass_through(scope *inner, const onnx_function *function,
                                const keel_draft *draft) {
  for (size_t i = 0; i < function->n_output; i++) {
    if (i >= draft->output_count || draft->outputs[i] == KEEL_ABSENT) continue;
    const entry *made = slot_of(inner, function->output[i]);
    keel_opdef *op = NULL;
    if (made->open)
      return bad(inner->all, KD_DATA_LOSS,
                 "function \"%s\": output \"%s\" is made by no node",
                 function->name, made->name);
    if (made->value == draft->outputs[i]) continue;
    KEEL_TRY(keel_opdef_create(inner->all->context,
                               keel_schema_find("", "Identity"), NULL, 0, NULL,
                               &op));
    KEEL_TRY(keel_function_node(inner->function, op, draft->name, &made->value,
                                1, &draft->outputs[i], 1, NULL));
  }
  return KD_OK;
}

static keel_status write_out(scope *outer, const onnx_node *node, uint32_t at,
                             keel_draft *draft) {
  importer *all = outer->all;
  const onnx_function *function = all->model->functions[at];
  KEEL_TRY(count_nodes(all, (function->n_input + function->n_output) / 4));
  KEEL_TRY(enter(all, function->name));
  scope inner = {.all = all,
                 .function = outer->function,
                 .call = node,
                 .caller = outer,
                 .body = at};
  keel_status status = KD_OK;
  for (size_t i = 0; i < function->n_input && status == KD_OK; i++)
    if (i < draft->input_count && draft->inputs[i] != KEEL_ABSENT)
      status = scope_add(&inner, function->input[i], draft->inputs[i]);
  if (status == KD_OK) status = bind_outputs(&inner, function, draft);
  if (status == KD_OK)
    status = import_nodes(&inner, function->node, function->n_node);
  if (status == KD_OK) status = pass_through(&inner, function, draft);
  scope_free(&inner);
  all->depth--;
  return status;
}

static keel_status add(const keel_draft *draft) {
  keel_status status = keel_draft_check(draft);
  if (status == KD_OK) status = keel_draft_add(draft, NULL);
  return status == KD_OK ? KD_OK
                         : keel_while(status, "while reading %s, node \"%s\"",
                                      draft->path, draft->name);
}

static keel_status import_draft(scope *scope, const onnx_node *node,
                                keel_draft *draft) {
  importer *all = scope->all;
  KEEL_TRY(bind_values(scope, node, draft));
  if (!draft->output_count) return KD_OK; /* nobody can read it */
  uint32_t function =
      onnx_index_find(&all->functions, draft->domain, draft->op);
  if (function != KEEL_ABSENT && !device_has(all, draft->domain, draft->op))
    return write_out(scope, node, function, draft);
  pad_inputs(draft);
  KEEL_TRY(read_attrs(scope, node, draft));
  if (keel_onnx_is_exchange(draft)) {
    uint32_t member = KEEL_ABSENT;
    KEEL_TRY(find_member(scope, &member));
    KEEL_TRY(keel_onnx_exchange(draft, member));
  }
  if (is_gradient(draft)) KEEL_TRY(add_gradient_inputs(scope, draft));
  KEEL_TRY(keel_draft_upgrade(draft));
  return add(draft);
}

static keel_status import_node(scope *scope, const onnx_node *node) {
  importer *all = scope->all;
  KEEL_TRY(count_nodes(all, 1));
  if (!node->op_type || !*node->op_type)
    return bad(all, KD_DATA_LOSS, "node \"%s\" has no op",
               node->name ? node->name : "");
  const char *domain = node->domain ? node->domain : "";
  if (!strcmp(domain, "ai.onnx")) domain = "";
  keel_draft *draft = calloc(1, sizeof *draft);
  if (!draft) return keel_no_memory(sizeof *draft);
  draft->function = scope->function;
  draft->path = all->path;
  draft->name = node->name ? node->name : "";
  draft->op = node->op_type;
  draft->domain = domain;
  keel_status status = opset_of(scope, domain, &draft->opset);
  if (status == KD_OK && !*domain && !draft->opset &&
      all->model->n_opset_import)
    status = bad(all, KD_DATA_LOSS,
                 "node \"%s\" (%s): the model does not say which opset of"
                 " ai.onnx it uses",
                 draft->name, draft->op);
  if (status == KD_OK) status = import_draft(scope, node, draft);
  for (uint32_t i = 0; i < draft->attr_count; i++)
    if (draft->attrs[i].kind == KD_ATTR_TENSOR)
      keel_tensor_release(draft->attrs[i].tensor);
  free(draft);
  return status;
}

static keel_status import_nodes(scope *scope, onnx_node *const *nodes,
                                size_t count) {
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < nodes[i]->n_output; k++) {
      const char *name = nodes[i]->output[k];
      if (*name) KEEL_TRY(scope_make(scope, name));
    }
  for (size_t i = 0; i < count; i++)
    KEEL_TRY(import_node(scope, nodes[i]));
  return KD_OK;
}

/* ---- graphs --------------------------------------------------------------- */

static keel_status import_initializers(scope *scope, const onnx_graph *graph) {
  importer *all = scope->all;
  if (graph->n_sparse_initializer)
    return bad(all, KD_UNIMPLEMENTED, "has sparse initializers");
  for (size_t i = 0; i < graph->n_initializer; i++) {
    const onnx_tensor *proto = graph->initializer[i];
    keel_tensor *tensor = NULL;
    if (!proto->name || !*proto->name)
      return bad(all, KD_DATA_LOSS, "an initializer has no name");
    KEEL_TRY(read_tensor(scope, proto, all->program->mapping, &tensor));
    uint32_t value =
        keel_function_constant(scope->function, proto->name, tensor);
    keel_tensor_release(tensor);
    if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
    KEEL_TRY(scope_add(scope, proto->name, value));
  }
  return KD_OK;
}

static keel_status import_inputs(scope *scope, const onnx_graph *graph) {
  for (size_t i = 0; i < graph->n_input; i++) {
    const onnx_value_info *info = graph->input[i];
    keel_port port;
    int64_t dims[KD_MAX_RANK];
    const char *symbols[KD_MAX_RANK];
    uint32_t value = KEEL_ABSENT;
    if (!info->name || !*info->name)
      return bad(scope->all, KD_DATA_LOSS, "an input has no name");
    if (scope_find(scope, info->name) != KEEL_ABSENT &&
        scope->function->values[scope_find(scope, info->name)].constant)
      continue; /* an input with an initial value is a constant */
    read_port(info, &port, dims, symbols);
    KEEL_TRY(scope_new(scope, info->name, &value));
    scope->function->values[value].type = keel_port_type(&port);
    KEEL_TRY(keel_function_input(scope->function, value, &port));
  }
  return KD_OK;
}

static keel_status import_outputs(scope *scope, const onnx_graph *graph) {
  for (size_t i = 0; i < graph->n_output; i++) {
    const onnx_value_info *info = graph->output[i];
    keel_port port;
    int64_t dims[KD_MAX_RANK];
    const char *symbols[KD_MAX_RANK];
    uint32_t value = KEEL_ABSENT;
    keel_status status = resolve(scope, info->name ? info->name : "", &value);
    if (status == KD_NOT_FOUND)
      return bad(scope->all, KD_DATA_LOSS, "output \"%s\" is made by no node",
                 info->name ? info->name : "");
    KEEL_TRY(status);
    read_port(info, &port, dims, symbols);
    KEEL_TRY(keel_function_output(scope->function, value, &port));
  }
  return KD_OK;
}

static keel_status import_graph(const onnx_graph *graph, scope *inner) {
  importer *all = inner->all;
  KEEL_TRY(enter(all, graph->name));
  KEEL_TRY(keel_function_create(all->context, &all->program->arena,
                                &all->program->functions, graph->name,
                                &inner->function));
  KEEL_TRY(import_initializers(inner, graph));
  KEEL_TRY(import_inputs(inner, graph));
  KEEL_TRY(import_nodes(inner, graph->node, graph->n_node));
  KEEL_TRY(import_outputs(inner, graph));
  KEEL_TRY(keel_function_sort(inner->function));
  keel_status status = keel_function_types(inner->function);
  all->depth--;
  return status == KD_OK ? KD_OK
                         : keel_while(status, "while reading %s", all->path);
}

static keel_status index_functions(importer *all) {
  const onnx_model *model = all->model;
  all->inner = calloc(model->n_functions + 1, sizeof *all->inner);
  if (!all->inner)
    return keel_no_memory(model->n_functions * sizeof(onnx_index));
  for (size_t i = 0; i < model->n_functions; i++) {
    const onnx_function *function = model->functions[i];
    const char *domain = function->domain ? function->domain : "";
    if (!strcmp(domain, "ai.onnx")) domain = "";
    if (function->name)
      KEEL_TRY(
          onnx_index_add(&all->functions, domain, function->name, (uint32_t)i));
  }
  return KD_OK;
}

static uint32_t find_top(const void *top, const char *name) {
  return scope_find(top, name);
}

static keel_status import_annotations(importer *all, const scope *top) {
  const onnx_annotated from = {all->path,     all->bytes, all->model->graph,
                               top->function, find_top,   top};
  return keel_onnx_annotations(&from, all->program);
}

static keel_status import_model(importer *all) {
  scope top = {.all = all, .body = KEEL_ABSENT};
  if (!all->model->graph) return bad(all, KD_DATA_LOSS, "has no graph");
  if (!all->model->n_opset_import && all->model->ir_version >= 3)
    return bad(all, KD_DATA_LOSS, "does not say which opset it uses");
  KEEL_TRY(index_functions(all));
  keel_status status = import_graph(all->model->graph, &top);
  if (status == KD_OK) status = import_annotations(all, &top);
  all->program->main = top.function;
  scope_free(&top);
  return status;
}

static void importer_free(importer *all) {
  for (size_t i = 0; all->inner && i < all->model->n_functions; i++)
    onnx_index_free(&all->inner[i]);
  free(all->inner);
  onnx_index_free(&all->functions);
  onnx_index_free(&all->opsets);
  onnx_shared_free(&all->tensors);
}

static keel_status import_all(importer *all) {
  KEEL_TRY(import_model(all));
  return keel_onnx_settle(all->program);
}

static keel_status load(keel_context *context, const char *path,
                        keel_file *file, keel_program **out_program) {
  ProtobufCMessage *message = NULL;
  keel_program *program = NULL;
  uint64_t size = file->size;
  keel_status status = keel_onnx_unpack(path, &onnx__model_proto__descriptor,
                                        file->data, size, &message);
  if (status != KD_OK) return status;
  status = keel_program_create(context, &program);
  if (status == KD_OK) status = keel_mapping_create(file, &program->mapping);
  if (status == KD_OK) {
    importer all = {.context = context,
                    .program = program,
                    .path = path,
                    .model = (const onnx_model *)message,
                    .bytes = {program->mapping->file.data, size},
                    .most = NODES_FREE + NODES_PER_BYTE * size};
    if (all.most > NODES_MOST) all.most = NODES_MOST;
    status = import_all(&all);
    importer_free(&all);
  }
  keel_onnx_free(message);
  if (status != KD_OK) {
    keel_program_release(program);
    return status;
  }
  *out_program = program;
  return KD_OK;
}

/* A protobuf has no beginning of its own. */
static bool is_any(const void *data, uint64_t size) {
  (void)data;
  (void)size;
  return true;
}

const keel_frontend keel_frontend_onnx = {is_any, load};
