/* facts.c - what a function is, beside its body: names, declared types, names of
 * dimensions. */
#include "read.h"

void keel_mlir_port(const mlir_type *type, keel_port *out_port) {
  *out_port = (keel_port){.rank = KEEL_RANK_UNKNOWN, .flags = type->flags};
  if (type->kind != MLIR_TENSOR) return;
  out_port->dtype = type->dtype;
  out_port->rank = type->rank;
  out_port->dims = type->dims;
}

/* The names and types that a function's facts give its ports. */
static keel_status name_ports(cursor *c, keel_arena *arena,
                              const mlir_attr *facts, const char *what,
                              keel_port *ports, uint32_t count) {
  char key[32];
  snprintf(key, sizeof key, "%.*s_types", (int)strlen(what) - 1, what);
  const mlir_attr *names = keel_mlir_find(facts, what);
  const mlir_attr *types = keel_mlir_find(facts, key);
  if ((names && (names->kind != ATTR_LIST || names->count != count)) ||
      (types && (types->kind != ATTR_LIST || types->count != count))) {
    c->at = names ? names->where : types->where;
    return keel_mlir_fail(c, "\"%s\" and \"%s\" are lists of %u items here",
                          what, key, (unsigned)count);
  }
  const mlir_attr *name = names ? names->items : NULL;
  const mlir_attr *type = types ? types->items : NULL;
  for (uint32_t i = 0; i < count; i++) {
    if ((names && name->kind != ATTR_STRING) ||
        (types && type->kind != ATTR_TYPE)) {
      c->at = names ? name->where : type->where;
      return keel_mlir_fail(c, "\"%s\" are strings, and \"%s\" types", what,
                            key);
    }
    if (types) keel_mlir_port(type->type, &ports[i]);
    char text[32];
    snprintf(text, sizeof text, "%.*s%u", (int)strlen(what) - 1, what,
             (unsigned)i);
    ports[i].name = keel_arena_copy(arena, names ? name->s : text);
    if (!ports[i].name) return KD_OUT_OF_MEMORY;
    if (ports[i].dims) {
      ports[i].dims = keel_arena_copy_bytes(
          arena, ports[i].dims,
          ports[i].rank == KEEL_RANK_UNKNOWN ? 0
                                             : ports[i].rank * sizeof(int64_t));
      if (!ports[i].dims) return KD_OUT_OF_MEMORY;
    }
    name = name ? name->next : NULL;
    type = type ? type->next : NULL;
  }
  return KD_OK;
}

/* One port's names of dimensions: none, or one a dimension. */
static keel_status take_symbols(cursor *c, keel_arena *arena,
                                const mlir_attr *names, keel_port *port) {
  uint32_t rank = port->rank == KEEL_RANK_UNKNOWN ? 0 : port->rank;
  if (names->kind != ATTR_LIST || (names->count && names->count != rank)) {
    c->at = names->where;
    return keel_mlir_fail(c, "a list of %u names stands here, or of none",
                          (unsigned)rank);
  }
  if (!names->count) return KD_OK;
  const char **symbols = keel_arena_take(arena, rank * sizeof *symbols);
  if (!symbols) return KD_OUT_OF_MEMORY;
  const mlir_attr *name = names->items;
  for (uint32_t i = 0; i < rank; i++, name = name->next) {
    if (name->kind != ATTR_STRING) {
      c->at = name->where;
      return keel_mlir_fail(c, "the name of a dimension is a string");
    }
    if (!*name->s || port->dims[i] >= 0) continue;
    symbols[i] = keel_arena_copy(arena, name->s);
    if (!symbols[i]) return KD_OUT_OF_MEMORY;
    port->symbols = symbols; /* one has a name */
  }
  return KD_OK;
}

static keel_status name_dims(cursor *c, keel_arena *arena,
                             const mlir_attr *facts, const char *key,
                             keel_port *ports, uint32_t count) {
  const mlir_attr *symbols = keel_mlir_find(facts, key);
  if (!symbols) return KD_OK;
  if (symbols->kind != ATTR_LIST || symbols->count != count) {
    c->at = symbols->where;
    return keel_mlir_fail(c, "\"%s\" is a list of %u lists here", key,
                          (unsigned)count);
  }
  const mlir_attr *names = symbols->items;
  for (uint32_t i = 0; i < count; i++, names = names->next)
    KEEL_TRY(take_symbols(c, arena, names, &ports[i]));
  return KD_OK;
}

static keel_status mark_donated(cursor *c, const mlir_attr *facts,
                                keel_function *function) {
  const mlir_attr *donated = keel_mlir_find(facts, "donated");
  if (!donated) return KD_OK;
  bool right = donated->kind == ATTR_INTS;
  for (uint32_t i = 0; right && i < donated->count; i++) {
    int64_t input = donated->ints[i];
    right = input >= 0 && input < function->input_count;
    if (right) function->input_ports[input].flags |= KEEL_PORT_DONATED;
  }
  c->at = right ? c->at : donated->where;
  return right ? KD_OK
               : keel_mlir_fail(c,
                                "\"donated\" are numbers of inputs, of"
                                " which there are %u",
                                (unsigned)function->input_count);
}

keel_status keel_mlir_facts(cursor *c, const mlir_attr *facts,
                            keel_function *function) {
  keel_arena *arena = function->arena;
  const mlir_attr *name = keel_mlir_find(facts, "name");
  if (name && name->kind == ATTR_STRING) {
    function->name = keel_arena_copy(arena, name->s);
    if (!function->name) return KD_OUT_OF_MEMORY;
  }
  const mlir_attr *captures = keel_mlir_find(facts, "captures");
  if (captures && (captures->kind != ATTR_INT || captures->i < 0 ||
                   captures->i > function->input_count)) {
    c->at = captures->where;
    return keel_mlir_fail(c, "a region can't capture that many");
  }
  if (captures) function->capture_count = (uint32_t)captures->i;
  KEEL_TRY(name_ports(c, arena, facts, "inputs", function->input_ports,
                      function->input_count));
  KEEL_TRY(mark_donated(c, facts, function));
  KEEL_TRY(name_ports(c, arena, facts, "outputs", function->output_ports,
                      function->output_count));
  KEEL_TRY(name_dims(c, arena, facts, "input_symbols", function->input_ports,
                     function->input_count));
  KEEL_TRY(name_dims(c, arena, facts, "output_symbols", function->output_ports,
                     function->output_count));
  for (uint32_t i = 0; i < function->input_count; i++) {
    keel_value_info *value = &function->values[function->inputs[i]];
    value->name = function->input_ports[i].name;
    value->type = keel_port_type(&function->input_ports[i]);
  }
  return KD_OK;
}
