/* schema.c - reads the tables of ops into schemas, and finds them by name. */
#include "ops/schema.h"

#include <ctype.h>
#include <kd/help.h>
#include <pthread.h>

#include "ops/registry.h"
#include "system/locale.h"

#define SLOTS 1024 /* a power of two, over twice the ops */

static keel_arena arena;
static keel_schema *schemas;
static uint32_t schema_count;
static const keel_schema *slots[SLOTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static keel_status ready;

/* ---- the registry ---- */

static const keel_registry *used;

void keel_registry_use(const keel_registry *registry) {
  used = registry;
}

const keel_registry *keel_registry_get(void) {
  return used;
}

/* ---- types ---------------------------------------------------------------- */

static uint64_t type_set(const char *name, size_t size) {
  static const struct {
    const char *name;
    uint64_t types;
  } sets[] = {
#define TYPE_SET(word, types) {#word, types},
#include "defs/sets.def"
  };
  for (size_t i = 0; i < KEEL_COUNT_OF(sets); i++)
    if (strlen(sets[i].name) == size && !strncmp(sets[i].name, name, size))
      return sets[i].types;
  return UINT64_MAX; /* a mistake in the table */
}

/* ---- parameters: "X:T W:T B:T? -> Y:T" ------------------------------ */

typedef struct variables {
  char names[8];
  uint64_t types[8];
  int count;
} variables;

static int variable_of(variables *all, char name) {
  for (int i = 0; i < all->count; i++)
    if (all->names[i] == name) return i;
  all->names[all->count] = name;
  return all->count++;
}

static bool read_param(const char *word, size_t size, variables *all,
                       keel_param *param) {
  const char *colon = memchr(word, ':', size);
  if (!colon) return false;
  char *name = keel_arena_take(&arena, (size_t)(colon - word) + 1);
  if (!name) return false;
  memcpy(name, word, (size_t)(colon - word));
  param->name = name;
  param->variable = -1;
  size_t left = size - (size_t)(colon + 1 - word);
  const char *type = colon + 1;
  while (left && strchr("?*%", type[left - 1])) {
    char mark = type[--left];
    param->optional |= mark == '?';
    param->variadic |= mark != '?';
    param->mixed |= mark == '%';
  }
  if (isupper((unsigned char)type[0])) {
    int variable = variable_of(all, type[0]);
    param->variable = (int8_t)variable;
    if (left > 2 && type[1] == '=')
      all->types[variable] = type_set(type + 2, left - 2);
    param->types = all->types[variable];
  } else {
    param->types = type_set(type, left);
  }
  return param->types != UINT64_MAX;
}

static bool schema_read_params(const char *text, const char *types,
                               keel_schema *schema) {
  variables all = {.names = "T", .count = 1};
  all.types[0] = type_set(types, strlen(types));
  keel_param *params = keel_arena_take(&arena, 40 * sizeof *params);
  uint32_t count = 0;
  if (!params) return false;
  schema->inputs = params;
  while (*text) {
    size_t size = strcspn(text, " ");
    if (!strncmp(text, "->", 2)) {
      schema->input_count = count;
      schema->outputs = params + count;
    } else if (!read_param(text, size, &all, &params[count++])) {
      return false;
    }
    text += size;
    text += strspn(text, " ");
  }
  schema->output_count = count - schema->input_count;
  for (uint32_t i = 0; i < schema->input_count; i++)
    if (!params[i].optional) schema->least_inputs = i + 1;
  return schema->outputs != NULL;
}

/* ---- attributes: "axis:i=1 mode:s=constant|edge to:i! pads:I" -------------- */

static bool schema_read_attr(const char *word, size_t size,
                             keel_attr_rule *rule) {
  static const char kinds[] = "?fistgFIS"; /* by KD_ATTR_* number */
  char *copy = keel_arena_take(&arena, size + 1);
  if (!copy) return false;
  memcpy(copy, word, size);
  char *colon = strchr(copy, ':');
  if (!colon || !colon[1]) return false;
  *colon = 0;
  rule->name = copy;
  const char *kind = strchr(kinds, colon[1]);
  if (!kind) return false;
  rule->kind = (uint32_t)(kind - kinds);
  rule->required = colon[2] == '!';
  rule->has_default = colon[2] == '=';
  char *said = colon + 2 + (rule->required || rule->has_default);
  if (strchr(said, '|')) {
    rule->choices = keel_arena_copy(&arena, said);
    if (!rule->choices) return false;
    *strchr(said, '|') = 0; /* the first one is the default */
  }
  if (rule->has_default) {
    rule->s = said;
    rule->i = strtoll(rule->s, NULL, 10);
    rule->f = strtof(rule->s, NULL);
  }
  return true;
}

static bool read_attrs(const char *text, keel_schema *schema) {
  keel_attr_rule *rules = keel_arena_take(&arena, 24 * sizeof *rules);
  if (!rules) return false;
  schema->attrs = rules;
  while (*text) {
    size_t size = strcspn(text, " ");
    if (!schema_read_attr(text, size, &rules[schema->attr_count++]))
      return false;
    text += size;
    text += strspn(text, " ");
  }
  return true;
}

/* ---- registry ------------------------------------------------------------- */

static uint64_t hash_of(const char *domain, const char *name) {
  return keel_hash_string(keel_hash_string(KEEL_HASH_SEED, domain), name);
}

static keel_status read_row(const keel_schema_row *row, keel_schema *schema) {
  schema->domain = row->domain ? row->domain : "ai.onnx";
  schema->name = row->name;
  schema->since = row->since;
  schema->flags = row->flags;
  schema->infer = row->infer;
  schema->kind = row->kind;
  schema->host = row->host;
  schema->value_inputs = row->value_inputs;
  if (!schema_read_params(row->params, row->types, schema) ||
      !read_attrs(row->attrs, schema))
    return keel_fail(KD_INTERNAL, "the schema of %s can't be read", row->name);
  uint64_t at = hash_of(schema->domain, schema->name);
  while (slots[at % SLOTS])
    at++;
  slots[at % SLOTS] = schema;
  return KD_OK;
}

static keel_status read_rule(const keel_op_rule *rule) {
  keel_schema *schema = (keel_schema *)(uintptr_t)keel_schema_named(rule->op);
  if (!schema)
    return keel_fail(KD_INTERNAL, "there is a rule for %s, and no such op",
                     rule->op);
  if (rule->expand) schema->expand = rule->expand;
  if (rule->body) schema->body = rule->body;
  if (rule->gradient) schema->gradient = rule->gradient;
  if (rule->slopes) schema->slopes = rule->slopes;
  if (rule->steps) schema->steps = rule->steps;
  if (rule->flops) schema->flops = rule->flops;
  if (rule->view) schema->view = rule->view;
  schema->traits |= rule->traits;
  if (!keel_registry_get()->has_strings) schema->traits &= ~KEEL_OP_STRINGS;
  return KD_OK;
}

static keel_status read_tables(void) {
  const keel_registry *all = keel_registry_get();
  for (uint32_t i = 0; i < all->table_count; i++)
    schema_count += all->tables[i]->row_count;
  schemas = keel_arena_take(&arena, schema_count * sizeof *schemas);
  if (!schemas) return KD_OUT_OF_MEMORY;
  keel_schema *next = schemas;
  for (uint32_t i = 0; i < all->table_count; i++)
    for (uint32_t k = 0; k < all->tables[i]->row_count; k++)
      KEEL_TRY(read_row(&all->tables[i]->rows[k], next++));
  for (uint32_t i = 0; i < all->table_count; i++)
    for (uint32_t k = 0; k < all->tables[i]->rule_count; k++)
      KEEL_TRY(read_rule(&all->tables[i]->rules[k]));
  return KD_OK;
}

static void schema_prepare(void) {
  keel_plain plain = keel_plain_begin();
  ready = read_tables();
  keel_plain_end(plain);
}

/* The registry is the process's; it goes with it. */
__attribute__((destructor)) static void schema_forget(void) {
  keel_arena_free(&arena);
}

keel_status keel_schema_ready(void) {
  pthread_once(&once, schema_prepare);
  return ready;
}

const keel_schema *keel_schema_find(const char *domain, const char *name) {
  if (!domain || !*domain) domain = "ai.onnx";
  for (uint64_t at = hash_of(domain, name); slots[at % SLOTS]; at++) {
    const keel_schema *schema = slots[at % SLOTS];
    if (!strcmp(schema->name, name) && !strcmp(schema->domain, domain))
      return schema;
  }
  return NULL;
}

const keel_schema *keel_schema_named(const char *name) {
  const char *colons = strstr(name, "::");
  char domain[64];
  if (!colons) return keel_schema_find("", name);
  if ((size_t)(colons - name) >= sizeof domain) return NULL;
  snprintf(domain, sizeof domain, "%.*s", (int)(colons - name), name);
  return keel_schema_find(domain, colons + 2);
}

const keel_schema *keel_schema_of_kind(keel_op_kind kind) {
  uint32_t i = 0;
  while (i < schema_count && schemas[i].kind != kind)
    i++;
  return keel_schema_at(i);
}

const keel_schema *keel_schema_at(uint32_t index) {
  return index < schema_count ? &schemas[index] : NULL;
}

uint32_t keel_schema_count(void) {
  return schema_count;
}

static const keel_param *param_at(const keel_param *params, uint32_t count,
                                  uint32_t index) {
  if (index < count) return &params[index];
  return count && params[count - 1].variadic ? &params[count - 1] : NULL;
}

const keel_param *keel_schema_input(const keel_schema *schema, uint32_t index) {
  return param_at(schema->inputs, schema->input_count, index);
}

const keel_param *keel_schema_output(const keel_schema *schema,
                                     uint32_t index) {
  return param_at(schema->outputs, schema->output_count, index);
}

const char *keel_runtime_op(uint32_t index) {
  if (keel_schema_ready() != KD_OK) return NULL;
  for (uint32_t i = 0; i < schema_count; i++)
    if (keel_schema_hosted(&schemas[i]) && index-- == 0) return schemas[i].name;
  return NULL;
}
