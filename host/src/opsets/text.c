/* text.c - ops written as text: the language of text.h, by recursive descent. */
#include "opsets/text.h"

#include <ctype.h>
#include <float.h>
#include <math.h>

#include "opsets/terms.h"
#include "system/locale.h"

#define NAMES_MOST     24 /* that a text gives */
#define NAME_SIZE      64
#define ARGUMENTS_MOST 16 /* of an op; attributes of one */
#define LIST_MOST      16 /* entries of a list */

/* What an expression stands for: a value, or a number that becomes one beside a value. */
typedef struct text_term {
  bool number;
  double n;
  uint32_t value;
} text_term;

typedef struct text_reader {
  const keel_text_of *of;
  keel_emit *e;
  const char *text, *at;
  va_list arguments;
  int muted; /* depth of branches not taken, which add no nodes */
  bool broken;
  uint32_t count;
  char names[NAMES_MOST][NAME_SIZE];
  uint32_t values[NAMES_MOST];
} text_reader;

static text_term read_expression(text_reader *t);

/* ---- characters ---------------------------------------------------------------------------- */

static void text_broken(text_reader *t, const char *wanted) {
  if (!t->broken)
    keel_emit_fail(t->e, KD_INTERNAL,
                   "there is no %s at \"%s\" of the text \"%s\"", wanted, t->at,
                   t->text);
  t->broken = true;
  t->at = "";
}

static bool text_sees(text_reader *t, const char *word) {
  t->at += strspn(t->at, " ");
  return !strncmp(t->at, word, strlen(word));
}

static bool text_accepts(text_reader *t, const char *word) {
  if (!text_sees(t, word)) return false;
  t->at += strlen(word);
  return true;
}

static void text_expects(text_reader *t, const char *word) {
  if (!text_accepts(t, word)) text_broken(t, word);
}

/* Letters, digits, _ and ::; "" where there is none. */
static void read_name(text_reader *t, char name[NAME_SIZE]) {
  size_t size = 0;
  t->at += strspn(t->at, " ");
  while (isalnum((unsigned char)t->at[size]) || t->at[size] == '_' ||
         t->at[size] == '.' || (t->at[size] == ':' && t->at[size + 1] == ':') ||
         (size && t->at[size] == ':' && t->at[size - 1] == ':'))
    size++;
  snprintf(name, NAME_SIZE, "%.*s", (int)size, t->at);
  t->at += size;
  if (!size || size >= NAME_SIZE) text_broken(t, "name");
}

static uint32_t read_index(text_reader *t) {
  char *end = NULL;
  uint32_t index = (uint32_t)strtoul(t->at, &end, 10);
  if (end == t->at)
    text_broken(t, "number");
  else
    t->at = end;
  return index;
}

static bool is_sigil(const char *at) {
  return (*at == '$' || *at == '%' || *at == '^') &&
         isdigit((unsigned char)at[1]);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static text_term text_value(uint32_t value) {
  return (text_term){.value = value};
}
static text_term text_number(double n) {
  return (text_term){.number = true, .n = n, .value = KEEL_ABSENT};
}

/* A term as a value; a number becomes a scalar of the type of `like`. */
static uint32_t text_operand(text_reader *t, text_term term, uint32_t like) {
  if (!term.number || t->muted) return term.value;
  if (like == KEEL_ABSENT && !t->broken) {
    like = t->of->read(t->of->context, '$', 0);
    if (like == KEEL_ABSENT) text_broken(t, "value beside a number");
  }
  /* of f32, one that is too large is the largest */
  if (keel_emit_dtype(t->e, like) == KD_F32 && isfinite(term.n) &&
      fabs(term.n) > FLT_MAX)
    term.n = term.n < 0 ? -FLT_MAX : FLT_MAX;
  return keel_emit_number(t->e, term.n, like);
}

/* The kind of an attribute of the op; 0: it has none of that name. */
static uint32_t attribute_kind(text_reader *t, const char *name) {
  const keel_schema *schema = t->of->op ? t->of->op->schema : NULL;
  for (uint32_t i = 0; schema && i < schema->attr_count; i++)
    if (!strcmp(schema->attrs[i].name, name)) return schema->attrs[i].kind;
  text_broken(t, "attribute that the op has");
  return 0;
}

static double attribute_number(text_reader *t, const char *name) {
  uint32_t kind = attribute_kind(t, name);
  return kind == KD_ATTR_FLOAT ? (double)keel_attr_float(t->of->op, name, 0)
         : kind                ? (double)keel_attr_int(t->of->op, name, 0)
                               : 0;
}

/* ---- ops ------------------------------------------------------------------------------------- */

typedef struct text_call {
  char op[NAME_SIZE];
  keel_attr attrs[ARGUMENTS_MOST];
  char attr_names[ARGUMENTS_MOST][NAME_SIZE], words[ARGUMENTS_MOST][NAME_SIZE];
  int64_t ints[ARGUMENTS_MOST][LIST_MOST];
  uint32_t attr_count;
  text_term inputs[ARGUMENTS_MOST];
  uint32_t input_count;
} text_call;

/* The attributes that *, + or self take over. */
static void take_own_attributes(text_reader *t, text_call *call, bool self) {
  bool all = text_accepts(t, "*") || self;
  bool keeps = !all && text_accepts(t, "+");
  for (uint32_t i = 0; (all || keeps) && i < t->of->op->attr_count; i++) {
    keel_attr attr = t->of->op->attrs[i].value;
    if (keeps && !strcmp(attr.name, "keepdims")) continue;
    if (call->attr_count == ARGUMENTS_MOST)
      text_broken(t, "room");
    else
      call->attrs[call->attr_count++] = attr;
  }
}

static void read_int_list(text_reader *t, keel_attr *attr, int64_t *ints) {
  uint32_t count = 0;
  char *end = NULL;
  while (!t->broken && !text_accepts(t, ")")) {
    text_accepts(t, ",");
    if (text_accepts(t, "%i"))
      ints[count++] = va_arg(t->arguments, int64_t);
    else {
      ints[count++] = strtoll(t->at, &end, 10);
      if (end == t->at)
        text_broken(t, "integer");
      else
        t->at = end;
    }
    if (count == LIST_MOST) text_broken(t, "shorter list");
  }
  *attr = (keel_attr)KEEL_INTS(attr->name, count, ints);
}

static void read_attribute_value(text_reader *t, text_call *call, uint32_t i) {
  keel_attr *attr = &call->attrs[i];
  const char *name = call->attr_names[i];
  text_accepts(t, " ");
  if (text_accepts(t, "%i"))
    *attr = (keel_attr)KEEL_INT(name, va_arg(t->arguments, int64_t));
  else if (text_accepts(t, "%f"))
    *attr = (keel_attr)KEEL_FLOAT(name, (float)va_arg(t->arguments, double));
  else if (text_accepts(t, "%s"))
    *attr = (keel_attr)KEEL_STRING(name, va_arg(t->arguments, const char *));
  else if (text_accepts(t, "%l")) {
    const int64_t *list = va_arg(t->arguments, const int64_t *);
    *attr = (keel_attr)KEEL_INTS(name, (uint32_t)va_arg(t->arguments, int64_t),
                                 list);
  } else if (text_accepts(t, "("))
    read_int_list(t, attr, call->ints[i]);
  else if (isalpha((unsigned char)*t->at)) {
    read_name(t, call->words[i]);
    *attr = (keel_attr)KEEL_STRING(name, call->words[i]);
  } else {
    char *end = NULL;
    double number = strtod(t->at, &end);
    bool whole = !memchr(t->at, '.', (size_t)(end - t->at)) &&
                 !memchr(t->at, 'e', (size_t)(end - t->at));
    if (end == t->at)
      text_broken(t, "attribute's value");
    else
      t->at = end;
    *attr = whole ? (keel_attr)KEEL_INT(name, (int64_t)number)
                  : (keel_attr)KEEL_FLOAT(name, (float)number);
  }
}

/* @NAME: this op's attribute, given or by its default; false: neither. */
static bool read_own_attribute(text_reader *t, keel_attr *attr) {
  char own[NAME_SIZE];
  const char *name = attr->name;
  read_name(t, own);
  const keel_node_attr *given = keel_attr_find(t->of->op, own);
  const keel_schema *schema = t->of->op->schema;
  bool found = given != NULL;
  if (given) *attr = given->value;
  for (uint32_t i = 0; !found && i < schema->attr_count; i++) {
    const keel_attr_rule *rule = &schema->attrs[i];
    found = !strcmp(rule->name, own) && rule->has_default;
    if (found)
      *attr = (keel_attr){
          .kind = rule->kind, .i = rule->i, .f = rule->f, .s = rule->s};
  }
  attr->name = name;
  return found;
}

static void read_attributes(text_reader *t, text_call *call) {
  if (!text_accepts(t, "[")) return;
  while (!t->broken && !text_accepts(t, "]")) {
    uint32_t i = call->attr_count;
    text_accepts(t, ",");
    if (i == ARGUMENTS_MOST) {
      text_broken(t, "room");
      return;
    }
    read_name(t, call->attr_names[i]);
    call->attrs[i] = (keel_attr){.name = call->attr_names[i]};
    text_expects(t, "=");
    if (text_accepts(t, "@")) {
      call->attr_count += read_own_attribute(t, &call->attrs[i]);
    } else {
      read_attribute_value(t, call, i);
      call->attr_count++;
    }
  }
}

static void read_inputs(text_reader *t, text_call *call) {
  text_expects(t, "(");
  while (!t->broken && !text_accepts(t, ")")) {
    text_accepts(t, ",");
    if (call->input_count == ARGUMENTS_MOST)
      text_broken(t, "room");
    else
      call->inputs[call->input_count++] = read_expression(t);
  }
}

/* An op with `count` outputs. */
static void read_call(text_reader *t, uint32_t *outputs, uint32_t count) {
  text_call call = {.attr_count = 0};
  uint32_t values[ARGUMENTS_MOST], like = KEEL_ABSENT;
  if (text_accepts(t, "%s"))
    snprintf(call.op, sizeof call.op, "%s", va_arg(t->arguments, const char *));
  else
    read_name(t, call.op);
  bool self = !strcmp(call.op, "self");
  if (self)
    snprintf(call.op, sizeof call.op, "%s::%s", t->of->op->schema->domain,
             t->of->op->schema->name);
  take_own_attributes(t, &call, self);
  read_attributes(t, &call);
  read_inputs(t, &call);
  for (uint32_t i = 0; i < call.input_count && like == KEEL_ABSENT; i++)
    like = call.inputs[i].value;
  for (uint32_t i = 0; i < call.input_count; i++)
    values[i] = text_operand(t, call.inputs[i], like);
  for (uint32_t i = 0; i < count; i++)
    outputs[i] = KEEL_ABSENT;
  if (!t->muted && !t->broken)
    keel_emit_node(t->e, call.op, call.attrs, call.attr_count, values,
                   call.input_count, outputs, count);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Entries of a list: integers that follow one another become one constant. */
typedef struct text_list {
  int64_t ints[LIST_MOST];
  uint32_t int_count, parts[LIST_MOST], part_count;
} text_list;

static void list_constant(text_reader *t, text_list *list) {
  if (!list->int_count && list->part_count) return;
  if (list->part_count == LIST_MOST) {
    text_broken(t, "room");
    return;
  }
  list->parts[list->part_count++] =
      t->muted ? KEEL_ABSENT
               : keel_emit_ints(t->e, list->ints, list->int_count);
  list->int_count = 0;
}

static void list_int(text_reader *t, text_list *list, int64_t number) {
  if (list->int_count == LIST_MOST)
    text_broken(t, "room");
  else
    list->ints[list->int_count++] = number;
}

static void list_attribute(text_reader *t, text_list *list) {
  char name[NAME_SIZE];
  const int64_t *ints = NULL;
  read_name(t, name);
  uint32_t kind = attribute_kind(t, name);
  if (kind == KD_ATTR_INT) list_int(t, list, keel_attr_int(t->of->op, name, 0));
  if (kind != KD_ATTR_INTS) return;
  int64_t count = keel_attr_ints(t->of->op, name, &ints);
  for (int64_t i = 0; i < count; i++)
    list_int(t, list, ints[i]);
}

/* An entry of a list that is not an integer written out. */
static void list_value(text_reader *t, text_list *list) {
  text_term term = read_expression(t);
  if (list->int_count) list_constant(t, list);
  if (term.number)
    text_broken(t, "list or integer");
  else if (list->part_count >= LIST_MOST)
    text_broken(t, "room");
  else if (!t->broken)
    list->parts[list->part_count++] = term.value;
}

static uint32_t read_list(text_reader *t) {
  text_list list = {.int_count = 0};
  for (bool first = true; !t->broken && !text_accepts(t, "}"); first = false) {
    if (!first) text_expects(t, ",");
    t->at += strspn(t->at, " ");
    char *end = NULL;
    int64_t number = strtoll(t->at, &end, 10);
    if (end != t->at) {
      t->at = end;
      list_int(t, &list, number);
    } else if (text_accepts(t, "%i")) {
      list_int(t, &list, va_arg(t->arguments, int64_t));
    } else if (text_accepts(t, "max")) {
      list_int(t, &list, INT64_MAX);
    } else if (text_accepts(t, "@")) {
      list_attribute(t, &list);
    } else {
      list_value(t, &list);
    }
  }
  if (list.int_count || !list.part_count) list_constant(t, &list);
  if (t->muted || t->broken) return KEEL_ABSENT;
  return list.part_count == 1
             ? list.parts[0]
             : keel_emit_concat(t->e, 0, list.parts, list.part_count);
}

/* dims(x), dims(x, begin, end) */
static uint32_t read_dims(text_reader *t) {
  int64_t bounds[] = {0, INT64_MAX};
  text_expects(t, "(");
  uint32_t of = read_expression(t).value;
  for (int i = 0; i < 2 && text_accepts(t, ","); i++) {
    text_term bound = read_expression(t);
    if (!bound.number) text_broken(t, "number");
    bounds[i] = bound.n < 0x1p62 ? (int64_t)bound.n : INT64_MAX;
  }
  text_expects(t, ")");
  return t->muted || t->broken ? KEEL_ABSENT
                               : keel_emit_dims(t->e, of, bounds[0], bounds[1]);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static text_term read_named(text_reader *t) {
  const char *before = t->at;
  char name[NAME_SIZE];
  read_name(t, name);
  if (!strcmp(name, "_")) return text_value(KEEL_ABSENT);
  if (!strcmp(name, "dims") && text_sees(t, "("))
    return text_value(read_dims(t));
  if (!strcmp(name, "range") && text_accepts(t, "(")) {
    uint32_t count = read_expression(t).value;
    text_expects(t, ")");
    return text_value(t->muted || t->broken ? KEEL_ABSENT
                                            : keel_emit_range(t->e, count));
  }
  if (text_sees(t, "(") && keel_dtype_of(name) != KD_NONE) {
    text_expects(t, "(");
    uint32_t value = read_expression(t).value;
    text_expects(t, ")");
    return text_value(t->muted || t->broken
                          ? KEEL_ABSENT
                          : keel_emit_cast(t->e, value, keel_dtype_of(name)));
  }
  if (isupper((unsigned char)*before) || strstr(name, "::") ||
      !strcmp(name, "self")) {
    uint32_t output = KEEL_ABSENT;
    t->at = before;
    read_call(t, &output, 1);
    return text_value(output);
  }
  for (uint32_t i = 0; i < t->count; i++)
    if (!strcmp(t->names[i], name)) return text_value(t->values[i]);
  t->at = before;
  text_broken(t, "name that is known");
  return text_value(KEEL_ABSENT);
}

static text_term read_literal(text_reader *t) {
  char *end = NULL;
  double number = strtod(t->at, &end);
  if (end == t->at)
    text_broken(t, "expression");
  else
    t->at = end;
  return text_number(number);
}

static text_term read_primary(text_reader *t) {
  char name[NAME_SIZE];
  t->at += strspn(t->at, " ");
  if (is_sigil(t->at)) {
    char sigil = *t->at++;
    return text_value(t->of->read(t->of->context, sigil, read_index(t)));
  }
  if (text_accepts(t, "%v")) return text_value(va_arg(t->arguments, uint32_t));
  if (text_accepts(t, "%f")) return text_number(va_arg(t->arguments, double));
  if (text_accepts(t, "%i"))
    return text_number((double)va_arg(t->arguments, int64_t));
  if (text_accepts(t, "%l")) {
    const int64_t *list = va_arg(t->arguments, const int64_t *);
    int64_t count = va_arg(t->arguments, int64_t);
    return text_value(t->muted ? KEEL_ABSENT
                               : keel_emit_ints(t->e, list, count));
  }
  if (text_accepts(t, "@")) {
    read_name(t, name);
    return text_number(t->broken ? 0 : attribute_number(t, name));
  }
  if (text_accepts(t, "{")) return text_value(read_list(t));
  if (text_accepts(t, "(")) {
    text_term inner = read_expression(t);
    text_expects(t, ")");
    return inner;
  }
  if (text_sees(t, "%s")) {
    uint32_t output = KEEL_ABSENT;
    read_call(t, &output, 1);
    return text_value(output);
  }
  return isalpha((unsigned char)*t->at) || *t->at == '_' ? read_named(t)
                                                         : read_literal(t);
}

/* -x, x~like */
static text_term read_unary(text_reader *t) {
  if (text_accepts(t, "-")) {
    text_term of = read_unary(t);
    if (of.number) return text_number(-of.n);
    return text_value(t->muted || t->broken
                          ? KEEL_ABSENT
                          : keel_emit_unary(t->e, "Neg", of.value));
  }
  text_term term = read_primary(t);
  if (!text_sees(t, "~=") && text_accepts(t, "~")) {
    uint32_t like = read_primary(t).value;
    return text_value(text_operand(t, term, like));
  }
  return term;
}

static text_term text_binary(text_reader *t, const char *op, text_term a,
                             text_term b) {
  if (a.number && b.number) {
    if (*op == 'A') return text_number(a.n + b.n);
    if (*op == 'S') return text_number(a.n - b.n);
    if (*op == 'M') return text_number(a.n * b.n);
    if (*op == 'D') return text_number(a.n / b.n);
    text_broken(t, "value beside a number");
  }
  uint32_t first = text_operand(t, a, b.value),
           second = text_operand(t, b, a.value);
  return text_value(t->muted || t->broken
                        ? KEEL_ABSENT
                        : keel_emit_binary(t->e, op, first, second));
}

static text_term read_product(text_reader *t) {
  text_term term = read_unary(t);
  while (!t->broken) {
    if (text_accepts(t, "*"))
      term = text_binary(t, "Mul", term, read_unary(t));
    else if (text_accepts(t, "/"))
      term = text_binary(t, "Div", term, read_unary(t));
    else
      break;
  }
  return term;
}

static text_term read_sum(text_reader *t) {
  text_term term = read_product(t);
  while (!t->broken) {
    if (text_accepts(t, "+"))
      term = text_binary(t, "Add", term, read_product(t));
    else if (text_accepts(t, "-"))
      term = text_binary(t, "Sub", term, read_product(t));
    else
      break;
  }
  return term;
}

static text_term read_comparison(text_reader *t) {
  static const char *const ops[][2] = {{"<=", "LessOrEqual"},
                                       {">=", "GreaterOrEqual"},
                                       {"==", "Equal"},
                                       {"<", "Less"},
                                       {">", "Greater"}};
  text_term term = read_sum(t);
  for (size_t i = 0; i < KEEL_COUNT_OF(ops); i++)
    if (text_accepts(t, ops[i][0]))
      return text_binary(t, ops[i][1], term, read_sum(t));
  return term;
}

/* What stands before a ? is decided here: 1 or 0; -1: it is not a condition. */
static int read_condition(text_reader *t) {
  char name[NAME_SIZE], word[NAME_SIZE];
  const char *before = t->at;
  bool negated = text_accepts(t, "!");
  int holds = -1;
  t->at += strspn(t->at, " ");
  if (!strncmp(t->at, "%b", 2)) {
    t->at += 2;
    holds = va_arg(t->arguments, int) != 0;
  } else if (is_sigil(t->at)) {
    char sigil = *t->at++;
    uint32_t index = read_index(t);
    holds = t->of->read(t->of->context, sigil, index) != KEEL_ABSENT;
  } else if (text_accepts(t, "@")) {
    read_name(t, name);
    if (!text_sees(t, "==") && text_accepts(t, "=")) {
      read_name(t, word);
      holds = !strcmp(keel_attr_string(t->of->op, name, ""), word);
    } else if (text_sees(t, "?")) {
      holds = attribute_number(t, name) != 0;
    }
  }
  if (holds >= 0 && text_accepts(t, "?")) return holds != negated;
  if (!t->broken) t->at = before;
  return -1;
}

static text_term read_expression(text_reader *t) {
  int holds = read_condition(t);
  if (holds < 0) return read_comparison(t);
  t->muted += !holds;
  text_term yes = read_expression(t);
  t->muted -= !holds;
  text_expects(t, ":");
  t->muted += holds;
  text_term no = read_expression(t);
  t->muted -= holds;
  return holds ? yes : no;
}

/* ---- statements ------------------------------------------------------------------------------ */

typedef struct text_target {
  char sigil; /* 0: a name */
  uint32_t index;
  uint32_t *place; /* of the caller's, or NULL */
  char name[NAME_SIZE];
} text_target;

static void text_give(text_reader *t, const text_target *target, uint32_t value,
                      bool narrow) {
  if (t->broken) return;
  if (target->place) {
    *target->place = value;
    return;
  }
  if (target->sigil) {
    if (!t->muted)
      t->of->give(t->of->context, target->sigil, target->index, value, narrow);
    return;
  }
  uint32_t i = 0;
  while (i < t->count && strcmp(t->names[i], target->name) != 0)
    i++;
  if (i == NAMES_MOST) {
    text_broken(t, "room");
    return;
  }
  if (i == t->count)
    snprintf(t->names[t->count++], NAME_SIZE, "%s", target->name);
  t->values[i] = value;
}

/* Whether an argument is a target: = or ~= or a comma follows. */
static bool is_target(text_reader *t, const char *argument) {
  if (!text_sees(t, argument)) return false;
  const char *next = t->at + strlen(argument);
  next += strspn(next, " ");
  return *next == ',' || !strncmp(next, "~=", 2) ||
         (*next == '=' && next[1] != '=');
}

/* The targets of a statement, up to its = or ~=; 0: it has none. */
static uint32_t read_targets(text_reader *t, text_target *targets,
                             bool *narrow) {
  const char *before = t->at;
  uint32_t count = 0;
  do {
    text_target *target = &targets[count++];
    *target = (text_target){.sigil = 0};
    t->at += strspn(t->at, " ");
    if (is_sigil(t->at)) {
      target->sigil = *t->at++;
      target->index = read_index(t);
    } else if (is_target(t, "%p")) {
      text_accepts(t, "%p");
      target->place = va_arg(t->arguments, uint32_t *);
      *target->place = KEEL_ABSENT;
    } else if (is_target(t, "%i")) {
      text_accepts(t, "%i");
      target->sigil = '%';
      target->index = (uint32_t)va_arg(t->arguments, int64_t);
    } else if (islower((unsigned char)*t->at) || *t->at == '_') {
      read_name(t, target->name);
    } else {
      break;
    }
    *narrow = text_accepts(t, "~=");
    if (*narrow || (!text_sees(t, "==") && text_accepts(t, "="))) return count;
  } while (count < 4 && text_accepts(t, ","));
  t->at = before;
  return 0;
}

static uint32_t read_statement(text_reader *t) {
  text_target targets[4];
  uint32_t outputs[4];
  bool narrow = false, wanted = false;
  uint32_t count = read_targets(t, targets, &narrow);
  if (!count) return text_operand(t, read_expression(t), KEEL_ABSENT);
  for (uint32_t i = 0; i < count; i++)
    wanted = wanted || !targets[i].sigil ||
             t->of->wants(t->of->context, targets[i].sigil, targets[i].index);
  t->muted += !wanted;
  if (count > 1) {
    read_call(t, outputs, count);
  } else {
    outputs[0] = text_operand(t, read_expression(t), KEEL_ABSENT);
  }
  for (uint32_t i = 0; i < count; i++)
    text_give(t, &targets[i], outputs[i], narrow);
  t->muted -= !wanted;
  return outputs[0];
}

uint32_t keel_text_write(const keel_text_of *of, const char *text,
                         va_list arguments) {
  text_reader t = {.of = of, .e = of->all, .text = text, .at = text};
  uint32_t last = KEEL_ABSENT;
  keel_plain plain = keel_plain_begin(); /* numbers have a point */
  va_copy(t.arguments, arguments);
  while (!t.broken && *t.at) {
    last = read_statement(&t);
    t.at += strspn(t.at, " ");
    if (*t.at) text_expects(&t, ";");
    t.at += strspn(t.at, " ");
  }
  va_end(t.arguments);
  keel_plain_end(plain);
  return of->all->status == KD_OK ? last : KEEL_ABSENT;
}

/* ---- of an op that is written with simpler ones ---------------------------------------------- */

static uint32_t emit_read(void *context, char sigil, uint32_t index) {
  const keel_emit *e = context;
  if (sigil == '$') return keel_emit_in(e, index);
  return index < e->node.output_count ? e->node.outputs[index] : KEEL_ABSENT;
}

static bool emit_wants(void *context, char sigil, uint32_t index) {
  return emit_read(context, sigil, index) != KEEL_ABSENT;
}

static void emit_give(void *context, char sigil, uint32_t index, uint32_t value,
                      bool narrow) {
  (void)sigil;
  (void)narrow;
  keel_emit_give(context, index, value);
}

uint32_t keel_emit_text(keel_emit *all, const char *text, ...) {
  const keel_text_of of = {all,       all->node.op, all,
                           emit_read, emit_wants,   emit_give};
  va_list arguments;
  va_start(arguments, text);
  uint32_t last = keel_text_write(&of, text, arguments);
  va_end(arguments);
  return last;
}

/* What an operator is; after: whether an operand stands before it. */
static const char *operator_op(const char *at, bool after) {
  if (*at == '-')
    return after ? "Sub" : isdigit((unsigned char)at[1]) ? NULL : "Neg";
  return !after       ? NULL
         : *at == '+' ? "Add"
         : *at == '*' ? "Mul"
         : *at == '/' ? "Div"
                      : NULL;
}

bool keel_text_ops(const char *text,
                   bool (*found)(void *context, const char *op),
                   void *context) {
  char name[NAME_SIZE];
  bool after = false;
  for (const char *at = text; *at;) {
    size_t size = 0;
    while (isalnum((unsigned char)at[size]) || at[size] == '_')
      size++;
    if (size && isupper((unsigned char)*at)) {
      snprintf(name, sizeof name, "%.*s", (int)size, at);
      if (!found(context, name)) return false;
      size += strspn(at + size, "*+");
      if (at[size] == '[') size += strcspn(at + size, "]");
    } else if (isdigit((unsigned char)*at)) {
      char *end = NULL;
      (void)strtod(at, &end);
      size = (size_t)(end - at);
    } else if (!size && operator_op(at, after)) {
      if (!found(context, operator_op(at, after))) return false;
    }
    if (*at != ' ') after = size || *at == ')' || *at == '}';
    at += size ? size : 1;
  }
  return true;
}
