/* read.c - operations and regions become a program's functions. */
#include <locale.h>

#include "device/device.h"
#include "frontends/frontends.h"
#include "ops/vendor.h"
#include "program/verify.h"
#include "read.h"

/* One result of an operation, by the name of the operation's results. */
typedef struct entry {
  span name;
  uint32_t index; /* %name#index */
  uint32_t value; /* KEEL_ABSENT: none */
} entry;

/* The declared type of a value, which is compared with the inferred one. */
typedef struct claim {
  keel_function *function;
  uint32_t value;
  mlir_type type;
  const char *where;
  struct claim *next;
} claim;

/* The names of a region. */
typedef struct scope {
  keel_function *function;
  entry *entries;           /* by hash, open addressing */
  uint32_t count, capacity; /* capacity is a power of two */
} scope;

typedef struct reader {
  cursor c;
  keel_program *program;
  claim *claims;
} reader;

/* ---- names ------------------------------------------------------------------------ */

static entry *read_slot_of(const scope *names, span name, uint32_t index) {
  uint64_t at = keel_hash(KEEL_HASH_SEED + index, name.at, name.size);
  for (;; at++) {
    entry *slot = &names->entries[at & (names->capacity - 1)];
    if (!slot->name.at ||
        (slot->index == index && slot->name.size == name.size &&
         !memcmp(slot->name.at, name.at, name.size)))
      return slot;
  }
}

static keel_status define(reader *all, scope *names, span name, uint32_t index,
                          uint32_t value) {
  if (names->count * 2 >= names->capacity) {
    uint32_t old = names->capacity;
    entry *entries = names->entries;
    names->entries = calloc(old ? old * 2 : 64, sizeof *entries);
    if (!names->entries) {
      names->entries = entries;
      return keel_no_memory(old * 2 * sizeof *entries);
    }
    names->capacity = old ? old * 2 : 64;
    for (uint32_t i = 0; i < old; i++)
      if (entries[i].name.at)
        *read_slot_of(names, entries[i].name, entries[i].index) = entries[i];
    free(entries);
  }
  entry *slot = read_slot_of(names, name, index);
  if (slot->name.at)
    return keel_mlir_fail(&all->c, "%%%.*s is defined twice", (int)name.size,
                          name.at);
  *slot = (entry){name, index, value};
  names->count++;
  return KD_OK;
}

/* "%name", or "%name#1". */
static keel_status read_use(reader *all, const scope *names,
                            uint32_t *out_value) {
  cursor *c = &all->c;
  KEEL_TRY(keel_mlir_expect(c, "%"));
  span name = keel_mlir_word(c), digits = {0};
  uint32_t index = 0;
  if (c->at < c->end && *c->at == '#') {
    c->at++;
    digits = keel_mlir_word(c);
    for (size_t i = 0; i < digits.size && index < 100000; i++)
      index = index * 10 + (uint32_t)(digits.at[i] - '0') % 10;
  }
  const entry *slot = names->capacity ? read_slot_of(names, name, index) : NULL;
  if (!slot || !slot->name.at)
    return keel_mlir_fail(
        c,
        "%%%.*s%s%.*s is not defined before this, in this region; regions get"
        " values of others as last arguments of their operation",
        (int)(name.size < 80 ? name.size : 80), name.at, digits.size ? "#" : "",
        (int)(digits.size < 8 ? digits.size : 8), digits.at ? digits.at : "");
  *out_value = slot->value;
  return KD_OK;
}

/* ---- lists that grow in the scratch arena --------------------------------------------- */

typedef struct words {
  uint32_t *data;
  uint32_t count, capacity;
} words;

static keel_status add_word(cursor *c, words *list, uint32_t word) {
  if (!KEEL_ARENA_ROOM(&c->scratch, list->data, list->count, list->capacity))
    return KD_OUT_OF_MEMORY;
  list->data[list->count++] = word;
  return KD_OK;
}

typedef struct result {
  span name;
  uint32_t count; /* %name:count */
  struct result *next;
} result;

/* "%a, %b:2 =", or nothing. */
static keel_status read_results(cursor *c, result **out_results) {
  result **last = out_results;
  keel_mlir_skip(c);
  if (c->at >= c->end || *c->at != '%') return KD_OK;
  do {
    result *made = keel_arena_take(&c->scratch, sizeof *made);
    if (!made) return KD_OUT_OF_MEMORY;
    KEEL_TRY(keel_mlir_expect(c, "%"));
    made->name = keel_mlir_word(c);
    made->count = 1;
    if (keel_mlir_take(c, ":")) {
      span count = keel_mlir_number(c);
      made->count = 0;
      for (size_t i = 0; i < count.size && made->count < 100000; i++)
        made->count = made->count * 10 + (uint32_t)(count.at[i] - '0') % 10;
    }
    if (!made->name.size || !made->count)
      return keel_mlir_fail(c, "a result has no name, or no number");
    *last = made;
    last = &made->next;
  } while (keel_mlir_take(c, ","));
  return keel_mlir_expect(c, "=");
}

/* Types in brackets, or one without. */
static keel_status read_type_list(cursor *c, mlir_type **out_types,
                                  uint32_t *out_count) {
  uint32_t capacity = 0;
  *out_count = 0;
  *out_types = NULL;
  bool brackets = keel_mlir_take(c, "(");
  if (brackets && keel_mlir_take(c, ")")) return KD_OK;
  do {
    if (!KEEL_ARENA_ROOM(&c->scratch, *out_types, *out_count, capacity))
      return KD_OUT_OF_MEMORY;
    KEEL_TRY(keel_mlir_type(c, &(*out_types)[(*out_count)++]));
  } while (brackets && keel_mlir_take(c, ","));
  return brackets ? keel_mlir_expect(c, ")") : KD_OK;
}

/* ---- types that the text claims -------------------------------------------------------- */

static keel_status add_claim(reader *all, keel_function *function,
                             uint32_t value, const mlir_type *type,
                             const char *where) {
  if (value == KEEL_ABSENT) return KD_OK;
  claim *made = keel_arena_take(&all->c.scratch, sizeof *made);
  if (!made) return KD_OUT_OF_MEMORY;
  *made = (claim){function, value, *type, where, all->claims};
  all->claims = made;
  return KD_OK;
}

static bool agrees(const mlir_type *type, const keel_type *found) {
  if (!found) return true;
  if (type->kind == MLIR_NONE) return false;
  if (type->kind == MLIR_VALUE) return true;
  bool same = type->dtype == KD_NONE || type->dtype == found->dtype;
  if (type->rank == KEEL_RANK_UNKNOWN) return same;
  same = same && type->rank == found->rank;
  for (uint32_t d = 0; same && d < type->rank; d++)
    same = type->dims[d] < 0 || found->dims[d] < 0 ||
           type->dims[d] == found->dims[d];
  return same;
}

static keel_status check_claims(reader *all) {
  for (const claim *at = all->claims; at; at = at->next) {
    const keel_type *found = at->function->values[at->value].type;
    char text[200];
    if (agrees(&at->type, found)) continue;
    all->c.at = at->where;
    return keel_mlir_fail(&all->c,
                          "this gives %s, which is not the type that"
                          " stands here",
                          keel_type_text(found, text, sizeof text));
  }
  return KD_OK;
}

/* ---- operations --------------------------------------------------------------------------- */

static keel_status read_region(reader *all, keel_function **out_function);

/* A function that an operation holds, of those that it holds. */
typedef struct region {
  keel_function *function;
  struct region *next;
} region;

/* An operation in the generic form: what is behind its name. */
typedef struct form {
  words operands;
  region *regions;
  mlir_attr attrs;
  mlir_type *in, *out;
  uint32_t in_count, out_count;
  const char *where, *types; /* in the text */
} form;

static keel_status read_operands(reader *all, const scope *names, form *op) {
  cursor *c = &all->c;
  KEEL_TRY(keel_mlir_expect(c, "("));
  if (keel_mlir_take(c, ")")) return KD_OK;
  do {
    uint32_t value = KEEL_ABSENT;
    KEEL_TRY(read_use(all, names, &value));
    KEEL_TRY(add_word(c, &op->operands, value));
  } while (keel_mlir_take(c, ","));
  return keel_mlir_expect(c, ")");
}

static keel_status read_regions(reader *all, form *op) {
  cursor *c = &all->c;
  region **last = &op->regions;
  if (!keel_mlir_take(c, "(")) return KD_OK;
  do {
    region *made = keel_arena_take(&c->scratch, sizeof *made);
    if (!made) return KD_OUT_OF_MEMORY;
    KEEL_TRY(read_region(all, &made->function));
    *last = made;
    last = &made->next;
  } while (keel_mlir_take(c, ","));
  return keel_mlir_expect(c, ")");
}

/* Attributes, then types; a place in a source is passed over. */
static keel_status read_tail(reader *all, form *op) {
  cursor *c = &all->c;
  keel_mlir_skip(c);
  if (c->at < c->end && *c->at == '{') KEEL_TRY(keel_mlir_dict(c, &op->attrs));
  KEEL_TRY(keel_mlir_expect(c, ":"));
  op->types = c->at;
  keel_mlir_skip(c);
  if (c->at >= c->end || *c->at != '(')
    return keel_mlir_fail(c, "an operation's type is (...) -> ...");
  KEEL_TRY(read_type_list(c, &op->in, &op->in_count));
  KEEL_TRY(keel_mlir_expect(c, "->"));
  KEEL_TRY(read_type_list(c, &op->out, &op->out_count));
  if (keel_mlir_take(c, "loc")) return keel_mlir_skip_brackets(c);
  return KD_OK;
}

static keel_status read_form(reader *all, const scope *names, form *op) {
  cursor *c = &all->c;
  KEEL_TRY(read_operands(all, names, op));
  if (keel_mlir_take(c, "<")) { /* properties */
    KEEL_TRY(keel_mlir_dict(c, &op->attrs));
    KEEL_TRY(keel_mlir_expect(c, ">"));
  }
  KEEL_TRY(read_regions(all, op));
  KEEL_TRY(read_tail(all, op));
  return op->operands.count == op->in_count
             ? KD_OK
             : keel_mlir_fail(c, "%u arguments have %u types",
                              (unsigned)op->operands.count,
                              (unsigned)op->in_count);
}

/* The values of an operation's results, and the names they get. */
static keel_status bind_results(reader *all, scope *names,
                                const result *results, form *op,
                                const uint32_t *values) {
  uint32_t done = 0;
  for (const result *at = results; at; at = at->next)
    for (uint32_t i = 0; i < at->count; i++, done++) {
      if (done >= op->out_count)
        return keel_mlir_fail(&all->c, "there are more results than types");
      KEEL_TRY(define(all, names, at->name, i, values[done]));
      KEEL_TRY(add_claim(all, names->function, values[done], &op->out[done],
                         op->types));
    }
  return !results || done == op->out_count
             ? KD_OK
             : keel_mlir_fail(&all->c, "%u results have %u types",
                              (unsigned)done, (unsigned)op->out_count);
}

static keel_status constant_list(reader *all, const mlir_attr *list,
                                 keel_tensor **out_sequence) {
  keel_tensor **items = calloc((size_t)list->count + 1, sizeof *items);
  uint32_t count = 0;
  keel_status status = items ? KD_OK : keel_no_memory(list->count);
  for (const mlir_attr *at = list->items; at && status == KD_OK; at = at->next)
    if (at->kind == ATTR_TENSOR)
      items[count++] = at->tensor;
    else
      status = keel_mlir_fail(&all->c, "a constant's list is of tensors");
  if (status == KD_OK)
    status = keel_sequence_create(all->c.context, items, count, out_sequence);
  free(items);
  return status;
}

static keel_status read_add_constant(reader *all, scope *names,
                                     const result *results, form *op) {
  const mlir_attr *value = keel_mlir_find(&op->attrs, "value");
  keel_tensor *tensor = NULL;
  if (!value || op->out_count != 1 || op->in_count)
    return keel_mlir_fail(&all->c,
                          "keel.constant has a value, one result and"
                          " no argument");
  if (value->kind == ATTR_TENSOR)
    tensor = keel_tensor_retain(value->tensor);
  else if (value->kind == ATTR_UNIT)
    KEEL_TRY(keel_optional_empty(all->c.context, &tensor));
  else if (value->kind == ATTR_LIST)
    KEEL_TRY(constant_list(all, value, &tensor));
  else
    return keel_mlir_fail(&all->c,
                          "a constant's value is dense data, a list"
                          " of it, or unit");
  uint32_t made = keel_function_constant(names->function, "", tensor);
  keel_tensor_release(tensor);
  if (made == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  return bind_results(all, names, results, op, &made);
}

static keel_status add_return(reader *all, scope *names, const form *op) {
  for (uint32_t i = 0; i < op->operands.count; i++) {
    uint32_t value = op->operands.data[i];
    keel_port port;
    if (value == KEEL_ABSENT)
      return keel_mlir_fail(&all->c, "output %u is none", (unsigned)i);
    keel_mlir_port(&op->in[i], &port);
    KEEL_TRY(keel_function_output(names->function, value, &port));
    KEEL_TRY(add_claim(all, names->function, value, &op->in[i], op->types));
  }
  return KD_OK;
}

/* ---- operations that are ops ------------------------------------------------------------- */

/* The schema of "onnx.Add", or "keel.FusedConv". */
static keel_status schema_of(reader *all, const char *name,
                             const keel_schema **out_schema) {
  const char *dot = strrchr(name, '.');
  char domain[128];
  if (!dot || dot == name || !dot[1] || (size_t)(dot - name) >= sizeof domain)
    return keel_mlir_fail(
        &all->c,
        "\"%s\" is not an operation of Keel: they are \"onnx.NAME\","
        " \"keel.NAME\" or those of another domain",
        name);
  snprintf(domain, sizeof domain, "%.*s", (int)(dot - name), name);
  const char *at = strcmp(domain, "onnx") != 0 ? domain : "";
  *out_schema = keel_op_find(all->c.context, at, dot + 1);
  if (*out_schema) return KD_OK;
  keel_status status = keel_op_missing(all->c.context, at, dot + 1);
  if (status == KD_NOT_FOUND) status = KD_UNIMPLEMENTED;
  return keel_while(status, "while reading %s", all->c.path);
}

/* The kind that the op's own rule has, where the text leaves it open. */
static uint32_t read_kind_of(const keel_schema *schema, const char *name) {
  for (uint32_t i = 0; i < schema->attr_count; i++)
    if (!strcmp(schema->attrs[i].name, name)) return schema->attrs[i].kind;
  return KD_ATTR_INTS;
}

static keel_status to_strings(reader *all, const mlir_attr *from,
                              keel_attr *to) {
  const char **strings = keel_arena_take(
      &all->c.scratch, ((size_t)from->count + 1) * sizeof *strings);
  if (!strings) return KD_OUT_OF_MEMORY;
  for (const mlir_attr *at = from->items; at; at = at->next) {
    if (at->kind != ATTR_STRING) {
      all->c.at = from->where;
      return keel_mlir_fail(&all->c, "\"%s\" is a list of more than one kind",
                            from->name);
    }
    strings[to->count++] = at->s;
  }
  to->strings = strings;
  return KD_OK;
}

static keel_status to_attr(reader *all, const keel_schema *schema,
                           const mlir_attr *from, keel_attr *to) {
  *to = (keel_attr){.name = from->name, .i = from->i, .f = from->f};
  switch (from->kind) {
    case ATTR_BOOL:
    case ATTR_INT:
      to->kind = KD_ATTR_INT;
      return KD_OK;
    case ATTR_FLOAT:
      to->kind = KD_ATTR_FLOAT;
      return KD_OK;
    case ATTR_STRING:
      to->kind = KD_ATTR_STRING;
      to->s = from->s;
      return KD_OK;
    case ATTR_INTS:
      to->kind = KD_ATTR_INTS;
      to->ints = from->ints;
      to->count = from->count;
      return KD_OK;
    case ATTR_FLOATS:
      to->kind = KD_ATTR_FLOATS;
      to->floats = from->floats;
      to->count = from->count;
      return KD_OK;
    case ATTR_LIST:
      to->kind =
          from->count ? KD_ATTR_STRINGS : read_kind_of(schema, from->name);
      return to_strings(all, from, to);
    case ATTR_TENSOR:
      to->kind = KD_ATTR_TENSOR;
      to->tensor = from->tensor;
      return KD_OK;
    default:
      all->c.at = from->where;
      return keel_mlir_fail(&all->c,
                            "attribute \"%s\" is of no kind that ops"
                            " have",
                            from->name);
  }
}

/* The nested functions, with the names of the attributes that they are. */
static keel_status to_graphs(reader *all, const form *op, keel_attr *attrs,
                             keel_function **graphs, uint32_t *count) {
  const mlir_attr *list = keel_mlir_find(&op->attrs, "keel.graphs");
  const mlir_attr *facts = list && list->kind == ATTR_LIST ? list->items : NULL;
  for (const region *at = op->regions; at; at = at->next) {
    const mlir_attr *name = facts && facts->kind == ATTR_DICT
                                ? keel_mlir_find(facts, "attribute")
                                : NULL;
    if (!name || name->kind != ATTR_STRING)
      return keel_mlir_fail(&all->c,
                            "keel.graphs has no {attribute = \"...\"}"
                            " for each region");
    KEEL_TRY(keel_mlir_facts(&all->c, facts, at->function));
    attrs[*count] = (keel_attr){.name = name->s, .kind = KD_ATTR_GRAPH};
    graphs[(*count)++] = at->function;
    facts = facts->next;
  }
  return facts ? keel_mlir_fail(&all->c,
                                "keel.graphs has more than there are"
                                " regions")
               : KD_OK;
}

static keel_status read_make_op(reader *all, const keel_schema *schema,
                                const form *op, keel_opdef **out_op) {
  uint32_t capacity = op->attrs.count + 1, count = 0;
  for (const region *at = op->regions; at; at = at->next)
    capacity++;
  keel_attr *attrs = keel_arena_take(&all->c.scratch, capacity * sizeof *attrs);
  keel_function **graphs =
      keel_arena_take(&all->c.scratch, capacity * sizeof *graphs);
  if (!attrs || !graphs) return KD_OUT_OF_MEMORY;
  for (const mlir_attr *at = op->attrs.items; at; at = at->next)
    if (strncmp(at->name, "keel.", 5) != 0)
      KEEL_TRY(to_attr(all, schema, at, &attrs[count++]));
  KEEL_TRY(to_graphs(all, op, attrs, graphs, &count));
  keel_status status =
      keel_opdef_create(all->c.context, schema, attrs, count, graphs, out_op);
  if (status == KD_OK) return KD_OK;
  char why[600];
  snprintf(why, sizeof why, "%s", keel_message());
  all->c.at = op->where;
  keel_mlir_fail(&all->c, "%s", why);
  return status;
}

static const char *string_attr(const form *op, const char *name) {
  const mlir_attr *found = keel_mlir_find(&op->attrs, name);
  return found && found->kind == ATTR_STRING ? found->s : "";
}

static keel_status read_add_node(reader *all, scope *names, const char *name,
                                 const result *results, form *op) {
  const keel_schema *schema = NULL;
  keel_opdef *made = NULL;
  keel_device *device = NULL;
  keel_node *node = NULL;
  uint32_t *values = keel_arena_take(
      &all->c.scratch, ((size_t)op->out_count + 1) * sizeof *values);
  if (!values) return KD_OUT_OF_MEMORY;
  KEEL_TRY(schema_of(all, name, &schema));
  KEEL_TRY(keel_verify_device(all->c.context, all->c.path,
                              string_attr(op, "keel.device"), &device));
  for (uint32_t i = 0; i < op->out_count; i++) {
    values[i] = KEEL_ABSENT;
    if (op->out[i].kind == MLIR_NONE) continue;
    values[i] = keel_function_value(names->function, "");
    if (values[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  }
  KEEL_TRY(read_make_op(all, schema, op, &made));
  KEEL_TRY(keel_function_node(
      names->function, made, string_attr(op, "keel.name"), op->operands.data,
      op->operands.count, values, op->out_count, &node));
  const mlir_attr *layout = keel_mlir_find(&op->attrs, "keel.layout");
  node->device = device;
  node->output_layout =
      layout && layout->i >= KD_LAYOUT_OWN && layout->i <= UINT32_MAX
          ? (uint32_t)layout->i
          : KD_LAYOUT_ROW_MAJOR;
  return bind_results(all, names, results, op, values);
}

/* One operation of a block; the last is keel.return. */
static keel_status read_operation(reader *all, scope *names, bool *out_last) {
  cursor *c = &all->c;
  result *results = NULL;
  form op = {0};
  const char *name = NULL;
  uint32_t none = KEEL_ABSENT;
  KEEL_TRY(read_results(c, &results));
  keel_mlir_skip(c);
  op.where = c->at;
  KEEL_TRY(keel_mlir_string(c, &name, NULL));
  KEEL_TRY(read_form(all, names, &op));
  *out_last = !strcmp(name, "keel.return");
  if (*out_last) return add_return(all, names, &op);
  if (!strcmp(name, "keel.constant"))
    return read_add_constant(all, names, results, &op);
  if (!strcmp(name, "keel.none"))
    return bind_results(all, names, results, &op, &none);
  return read_add_node(all, names, name, results, &op);
}

/* ---- regions ------------------------------------------------------------------------------- */

/* "^bb0(%a: type, ...):", or nothing. */
static keel_status read_arguments(reader *all, scope *names) {
  cursor *c = &all->c;
  if (!keel_mlir_take(c, "^")) return KD_OK;
  keel_mlir_word(c);
  if (keel_mlir_take(c, "(") && !keel_mlir_take(c, ")")) {
    do {
      mlir_type type;
      keel_port port;
      KEEL_TRY(keel_mlir_expect(c, "%"));
      span name = keel_mlir_word(c);
      const char *where = c->at;
      KEEL_TRY(keel_mlir_expect(c, ":"));
      KEEL_TRY(keel_mlir_type(c, &type));
      uint32_t value = keel_function_value(names->function, "");
      if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
      keel_mlir_port(&type, &port);
      names->function->values[value].type = keel_port_type(&port);
      KEEL_TRY(keel_function_input(names->function, value, &port));
      KEEL_TRY(define(all, names, name, 0, value));
      KEEL_TRY(add_claim(all, names->function, value, &type, where));
    } while (keel_mlir_take(c, ","));
    KEEL_TRY(keel_mlir_expect(c, ")"));
  }
  return keel_mlir_expect(c, ":");
}

static keel_status read_block(reader *all, scope *names) {
  cursor *c = &all->c;
  bool last = false;
  KEEL_TRY(keel_mlir_expect(c, "{"));
  KEEL_TRY(read_arguments(all, names));
  while (!last)
    KEEL_TRY(read_operation(all, names, &last));
  return keel_mlir_expect(c, "}");
}

static keel_status read_region(reader *all, keel_function **out_function) {
  scope names = {0};
  if (++all->c.depth > NESTING_MOST)
    return keel_mlir_fail(&all->c, "regions are nested too deeply");
  KEEL_TRY(keel_function_create(all->c.context, &all->program->arena,
                                &all->program->functions, "", &names.function));
  *out_function = names.function;
  keel_status status = read_block(all, &names);
  free(names.entries);
  all->c.depth--;
  return status;
}

/* ---- the program ------------------------------------------------------------------------------ */

static keel_status check_version(reader *all, const mlir_attr *facts) {
  const mlir_attr *version = keel_mlir_find(facts, "version");
  if (!version ||
      (version->kind == ATTR_INT && version->i == KEEL_MLIR_VERSION))
    return KD_OK;
  all->c.at = version->where;
  if (version->kind != ATTR_INT || version->i < KEEL_MLIR_VERSION)
    return keel_mlir_fail(&all->c, "this is not a version of the text");
  return keel_fail(KD_INCOMPATIBLE,
                   "%s: is in version %lld of Keel's text, and this Keel (%s)"
                   " knows version %d: update Keel, or compile the model with"
                   " this one",
                   all->c.path, (long long)version->i, KEEL_VERSION,
                   KEEL_MLIR_VERSION);
}

/* The opset versions that the file's ops were written with. */
static keel_status check_ops(reader *all, const mlir_attr *facts) {
  const mlir_attr *ops = keel_mlir_find(facts, "ops");
  if (!ops || ops->kind != ATTR_DICT) return KD_OK;
  for (const mlir_attr *at = ops->items; at; at = at->next) {
    const keel_schema *schema = NULL;
    KEEL_TRY(schema_of(all, at->name, &schema));
    if (at->kind == ATTR_INT)
      KEEL_TRY(keel_verify_op(all->c.context, all->c.path, schema->domain,
                              schema->name, (uint32_t)at->i, &schema));
  }
  return KD_OK;
}

static keel_status read_program(reader *all) {
  cursor *c = &all->c;
  form op = {0};
  const scope none = {0};
  keel_function *main = NULL;
  KEEL_TRY(keel_mlir_expect(c, "\"keel.program\""));
  KEEL_TRY(read_form(all, &none, &op));
  main = op.regions ? op.regions->function : NULL;
  if (!main || op.regions->next || op.in_count || op.out_count)
    return keel_mlir_fail(c, "keel.program has one region and no values");
  KEEL_TRY(check_version(all, &op.attrs));
  KEEL_TRY(check_ops(all, &op.attrs));
  KEEL_TRY(keel_mlir_facts(&all->c, &op.attrs, main));
  all->program->main = main;
  return keel_verify_device(c->context, c->path, string_attr(&op, "device"),
                            &all->program->device);
}

/* The module around it, in either form, or none. */
static keel_status read_module(reader *all) {
  cursor *c = &all->c;
  mlir_attr unused = {0};
  bool generic = keel_mlir_take(c, "\"builtin.module\"");
  if (generic) {
    KEEL_TRY(keel_mlir_expect(c, "("));
    KEEL_TRY(keel_mlir_expect(c, ")"));
    if (keel_mlir_take(c, "<")) {
      KEEL_TRY(keel_mlir_dict(c, &unused));
      KEEL_TRY(keel_mlir_expect(c, ">"));
    }
    KEEL_TRY(keel_mlir_expect(c, "("));
    KEEL_TRY(keel_mlir_expect(c, "{"));
    if (keel_mlir_take(c, "^")) {
      keel_mlir_word(c);
      KEEL_TRY(keel_mlir_expect(c, ":"));
    }
    KEEL_TRY(read_program(all));
    KEEL_TRY(keel_mlir_expect(c, "}"));
    KEEL_TRY(keel_mlir_expect(c, ")"));
    form op = {0};
    return read_tail(all, &op);
  }
  if (!keel_mlir_take(c, "module")) return read_program(all);
  if (keel_mlir_take(c, "@")) keel_mlir_word(c);
  if (keel_mlir_take(c, "attributes")) KEEL_TRY(keel_mlir_dict(c, &unused));
  KEEL_TRY(keel_mlir_expect(c, "{"));
  KEEL_TRY(read_program(all));
  KEEL_TRY(keel_mlir_expect(c, "}"));
  return keel_mlir_take(c, "loc") ? keel_mlir_skip_brackets(c) : KD_OK;
}

static keel_status read_all(reader *all) {
  cursor *c = &all->c;
  KEEL_TRY(keel_mlir_resources(c));
  KEEL_TRY(read_module(all));
  keel_mlir_skip(c);
  if (c->at != c->end)
    return keel_mlir_fail(c,
                          "a file holds one program, and this comes behind"
                          " it");
  KEEL_TRY(keel_program_verify(all->program, c->path));
  return check_claims(all);
}

static bool is_text(const void *data, uint64_t size) {
  const char *text = data;
  if (!size) return false; /* and no memory */
  cursor c = {.begin = text, .at = text, .end = text + size};
  keel_mlir_skip(&c);
  return keel_mlir_take(&c, "\"builtin.module\"") ||
         keel_mlir_take(&c, "module") ||
         keel_mlir_take(&c, "\"keel.program\"") || keel_mlir_take(&c, "{-#");
}

static keel_status read_load(keel_context *context, const char *path,
                             keel_file *file, keel_program **out_program) {
  const char *text = (const char *)file->data, *end = text + file->size;
  reader all = {.c = {.path = path,
                      .begin = text,
                      .at = text,
                      .end = end,
                      .last = end,
                      .context = context}};
  KEEL_TRY(keel_program_create(context, &all.program));
  /* numbers have a point, whatever the application's locale */
  locale_t plain = newlocale(LC_ALL_MASK, "C", 0);
  locale_t before = plain ? uselocale(plain) : 0;
  keel_status status = read_all(&all);
  if (plain) {
    uselocale(before);
    freelocale(plain);
  }
  for (mlir_attr *at = all.c.tensors; at; at = at->next_tensor)
    keel_tensor_release(at->tensor);
  keel_arena_free(&all.c.scratch);
  if (status != KD_OK) {
    keel_program_release(all.program);
    return status;
  }
  *out_program = all.program;
  return KD_OK;
}

const keel_frontend keel_frontend_mlir = {is_text, read_load};
