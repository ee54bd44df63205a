/* scope.c - the names of a graph.
 *
 * A nested graph's scope asks the one around it, and what it finds there becomes a capture
 * (see program/function.h). A graph that a function's caller gives asks where it is written,
 * and what it finds there is brought through the functions between. */
#include "scope.h"

#include "exchange.h"

keel_status onnx_bad(const importer *all, keel_status status,
                     const char *format, ...) {
  char text[900];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return keel_fail(status, "%s: %s", all->path, text);
}

entry *onnx_scope_slot(const scope *scope, const char *name) {
  uint64_t at = keel_hash_string(KEEL_HASH_SEED, name);
  while (scope->entries[at & (scope->capacity - 1)].name &&
         strcmp(scope->entries[at & (scope->capacity - 1)].name, name) != 0)
    at++;
  return &scope->entries[at & (scope->capacity - 1)];
}

keel_status onnx_scope_add(scope *scope, const char *name, uint32_t value) {
  if (scope->count * 2 >= scope->capacity) {
    uint32_t capacity = scope->capacity ? scope->capacity * 2 : 64,
             old = scope->capacity;
    entry *entries = scope->entries;
    scope->entries = calloc(capacity, sizeof *entries);
    if (!scope->entries) {
      scope->entries = entries;
      return keel_no_memory(capacity * sizeof *entries);
    }
    scope->capacity = capacity;
    for (uint32_t i = 0; i < old; i++)
      if (entries[i].name)
        *onnx_scope_slot(scope, entries[i].name) = entries[i];
    free(entries);
  }
  entry *slot = onnx_scope_slot(scope, name);
  if (slot->name)
    return onnx_bad(scope->all, KD_DATA_LOSS, "value \"%s\" is made twice",
                    name);
  *slot = (entry){name, value, false};
  scope->count++;
  return KD_OK;
}

keel_status onnx_scope_make(scope *scope, const char *name) {
  entry *slot = scope->capacity ? onnx_scope_slot(scope, name) : NULL;
  if (slot && slot->name && slot->open) {
    slot->open = false;
    return KD_OK;
  }
  uint32_t value = keel_function_value(scope->function, name);
  if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  return onnx_scope_add(scope, name, value);
}

keel_status onnx_scope_new(scope *scope, const char *name,
                           uint32_t *out_value) {
  uint32_t value = keel_function_value(scope->function, name);
  if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  *out_value = value;
  return onnx_scope_add(scope, name, value);
}

uint32_t onnx_scope_find(const scope *scope, const char *name) {
  const entry *slot = scope->capacity ? onnx_scope_slot(scope, name) : NULL;
  return slot && slot->name ? slot->value : KEEL_ABSENT;
}

/* Makes an outer value an input of the nested function. */
static keel_status capture(scope *scope, const char *name, uint32_t outer,
                           uint32_t *out_value) {
  if (!KEEL_ROOM(scope->captured, scope->captured_count,
                 scope->captured_capacity))
    return KD_OUT_OF_MEMORY;
  *out_value = keel_function_value(scope->function, name);
  if (*out_value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  KEEL_TRY(keel_function_input(scope->function, *out_value, NULL));
  scope->function->capture_count++;
  scope->captured[scope->captured_count++] = outer;
  return KD_OK;
}

/* A value of a function around this scope's as a value of this scope's. */
static keel_status scope_bring(scope *scope, const keel_function *from,
                               const char *name, uint32_t value,
                               uint32_t *out_value) {
  *out_value = value;
  if (value == KEEL_ABSENT || scope->function == from) return KD_OK;
  if (from->values[value].constant) { /* constants are known everywhere */
    *out_value = keel_function_constant(scope->function, name,
                                        from->values[value].constant);
    return *out_value == KEEL_ABSENT ? KD_OUT_OF_MEMORY : KD_OK;
  }
  if (!scope->around) /* of a function, which stands in its caller's */
    return scope_bring(scope->caller, from, name, value, out_value);
  uint32_t outer = KEEL_ABSENT;
  KEEL_TRY(scope_bring(scope->around, from, name, value, &outer));
  return capture(scope, name, outer, out_value);
}

keel_status onnx_scope_resolve(scope *scope, const char *name,
                               uint32_t *out_value) {
  const entry *slot = scope->capacity ? onnx_scope_slot(scope, name) : NULL;
  struct scope *next = scope->written ? scope->written : scope->around;
  uint32_t outer = KEEL_ABSENT;
  if (slot && slot->name) {
    *out_value = slot->value;
    return KD_OK;
  }
  if (!next) return KD_NOT_FOUND;
  KEEL_TRY(onnx_scope_resolve(next, name, &outer));
  KEEL_TRY(scope_bring(scope, next->function, name, outer, out_value));
  return onnx_scope_add(scope, name, *out_value);
}

keel_status onnx_scope_member(scope *scope, uint32_t *out_value) {
  const keel_port port = {.name = KEEL_ONNX_MEMBER,
                          .rank = KEEL_RANK_UNKNOWN,
                          .flags = KEEL_PORT_RESOURCE};
  *out_value = onnx_scope_find(scope, KEEL_ONNX_MEMBER);
  if (*out_value != KEEL_ABSENT) return KD_OK;
  uint32_t outer = KEEL_ABSENT;
  if (scope->around) {
    KEEL_TRY(onnx_scope_member(scope->around, &outer));
    KEEL_TRY(capture(scope, KEEL_ONNX_MEMBER, outer, out_value));
    return onnx_scope_add(scope, KEEL_ONNX_MEMBER, *out_value);
  }
  if (scope->caller) { /* a model's function, written out in its caller's */
    KEEL_TRY(onnx_scope_member(scope->caller, out_value));
    return onnx_scope_add(scope, KEEL_ONNX_MEMBER, *out_value);
  }
  KEEL_TRY(onnx_scope_new(scope, KEEL_ONNX_MEMBER, out_value));
  return keel_function_input(scope->function, *out_value, &port);
}

void onnx_scope_free(scope *scope) {
  free(scope->entries);
  free(scope->captured);
}
