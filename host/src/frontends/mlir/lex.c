/* lex.c - characters, words, numbers, strings and types of MLIR's text. */
#include "read.h"

keel_status keel_mlir_fail(const cursor *c, const char *format, ...) {
  char text[800];
  unsigned line = 1, column = 1;
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  for (const char *at = c->begin; at < c->at; at++) {
    column = *at == '\n' ? 1 : column + 1;
    line += *at == '\n';
  }
  return keel_fail(KD_DATA_LOSS, "%s:%u:%u: %s", c->path, line, column, text);
}

/* ---- tokens --------------------------------------------------------------------- */

void keel_mlir_skip(cursor *c) {
  while (c->at < c->end) {
    if (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r')
      c->at++;
    else if (c->end - c->at >= 2 && c->at[0] == '/' && c->at[1] == '/')
      while (c->at < c->end && *c->at != '\n')
        c->at++;
    else
      return;
  }
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
         c == '_' || c == '$' || c == '.';
}

bool keel_mlir_take(cursor *c, const char *text) {
  size_t size = strlen(text);
  keel_mlir_skip(c);
  if ((size_t)(c->end - c->at) < size || memcmp(c->at, text, size) != 0)
    return false;
  if ((is_word(*text) || *text == '!') && c->at + size < c->end &&
      is_word(c->at[size]))
    return false;
  c->at += size;
  return true;
}

keel_status keel_mlir_expect(cursor *c, const char *text) {
  if (keel_mlir_take(c, text)) return KD_OK;
  int left = c->end - c->at > 12 ? 12 : (int)(c->end - c->at);
  return left ? keel_mlir_fail(c, "\"%s\" should come here, not \"%.*s\"", text,
                               left, c->at)
              : keel_mlir_fail(c, "\"%s\" should come here, and the text ends",
                               text);
}

span keel_mlir_word(cursor *c) {
  keel_mlir_skip(c);
  span word = {c->at, 0};
  while (c->at < c->end && is_word(*c->at))
    c->at++;
  word.size = (size_t)(c->at - word.at);
  return word;
}

static int hex_of(char c) {
  return is_digit(c)            ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* One escape; c is behind the backslash. */
static bool unescape(cursor *c, char *out) {
  if (c->at >= c->end) return false;
  int high = hex_of(*c->at);
  int low = c->end - c->at >= 2 ? hex_of(c->at[1]) : -1;
  if (high >= 0 && low >= 0) {
    *out = (char)(high * 16 + low);
    c->at += 2;
    return true;
  }
  char one = *c->at++;
  *out = one == 'n' ? '\n' : one == 't' ? '\t' : one;
  return one == 'n' || one == 't' || one == '"' || one == '\\';
}

keel_status keel_mlir_string(cursor *c, const char **out_text,
                             size_t *out_size) {
  KEEL_TRY(keel_mlir_expect(c, "\""));
  const char *close = c->at;
  while (close < c->end && *close != '"')
    close += *close == '\\' ? 2 : 1;
  if (close >= c->end) return keel_mlir_fail(c, "a string does not end");
  char *text = keel_arena_take(&c->scratch, (size_t)(close - c->at) + 1);
  size_t size = 0;
  if (!text) return KD_OUT_OF_MEMORY;
  while (c->at < close)
    if (*c->at != '\\') {
      text[size++] = *c->at++;
    } else {
      c->at++;
      if (!unescape(c, &text[size++]))
        return keel_mlir_fail(c, "a string has an escape that there is not");
    }
  c->at = close + 1;
  *out_text = text;
  if (out_size)
    *out_size = size;
  else if (strlen(text) != size)
    return keel_mlir_fail(c, "a string has a NUL in it");
  return KD_OK;
}

span keel_mlir_number(cursor *c) {
  keel_mlir_skip(c);
  span number = {c->at, 0};
  const char *at = c->at;
  at += at < c->end && (*at == '-' || *at == '+');
  if (at >= c->end || !is_digit(*at)) return number;
  if (c->end - at > 2 && at[0] == '0' && at[1] == 'x' && hex_of(at[2]) >= 0) {
    for (at += 2; at < c->end && hex_of(*at) >= 0;)
      at++;
  } else {
    while (at < c->end && is_digit(*at))
      at++;
    if (at < c->end && *at == '.') {
      for (at++; at < c->end && is_digit(*at);)
        at++;
      if (at < c->end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < c->end && (*at == '-' || *at == '+');
        while (at < c->end && is_digit(*at))
          at++;
      }
    }
  }
  number.size = (size_t)(at - c->at);
  c->at = at;
  return number;
}

keel_status keel_mlir_skip_brackets(cursor *c) {
  const cursor from = *c;
  unsigned open = 0;
  keel_mlir_skip(c);
  while (c->at < c->end) {
    char one = *c->at;
    if (one == '"') {
      for (c->at++; c->at < c->end && *c->at != '"';)
        c->at += *c->at == '\\' ? 2 : 1;
      if (c->at >= c->end) break;
    }
    open += one == '(' || one == '[' || one == '<' || one == '{';
    if (one == ')' || one == ']' || one == '}' ||
        (one == '>' && c->at > c->begin && c->at[-1] != '-'))
      open--;
    c->at++;
    if (!open) return KD_OK;
  }
  *c = from;
  return keel_mlir_fail(c, "what is opened here is not closed");
}

/* ---- types -------------------------------------------------------------------------- */

/* The name of an element type: a word, complex<...> or !keel.... */
static keel_status element_type(cursor *c, mlir_type *type) {
  keel_mlir_skip(c);
  const char *begin = c->at;
  c->at += c->at < c->end && *c->at == '!';
  span word = keel_mlir_word(c);
  if (word.size == 7 && !memcmp(word.at, "complex", 7) && c->at < c->end &&
      *c->at == '<')
    KEEL_TRY(keel_mlir_skip_brackets(c));
  size_t size = (size_t)(c->at - begin);
  type->dtype = keel_mlir_dtype_of(begin, size);
  if (type->dtype != KD_NONE ||
      (size == 11 && !memcmp(begin, "!keel.value", 11)))
    return KD_OK;
  c->at = begin;
  return keel_mlir_fail(c, "\"%.*s\" is not an element type of Keel",
                        (int)(size < 40 ? size : 40), begin);
}

static keel_status dimension(cursor *c, mlir_type *type) {
  int64_t dim = -1;
  if (*c->at == '?') {
    c->at++;
  } else {
    for (dim = 0; c->at < c->end && is_digit(*c->at); c->at++)
      if (!keel_mul_i64(dim, 10, &dim) ||
          __builtin_add_overflow(dim, *c->at - '0', &dim))
        return keel_mlir_fail(c, "a dimension is too large");
  }
  if (c->at >= c->end || *c->at != 'x')
    return keel_mlir_fail(c, "\"x\" should follow a dimension");
  if (type->rank == KD_MAX_RANK)
    return keel_mlir_fail(c, "a tensor has more than %d dimensions",
                          (int)KD_MAX_RANK);
  c->at++;
  type->dims[type->rank++] = dim;
  return KD_OK;
}

static keel_status tensor_type(cursor *c, mlir_type *type) {
  KEEL_TRY(keel_mlir_expect(c, "<"));
  keel_mlir_skip(c);
  if (c->end - c->at > 2 && c->at[0] == '*' && c->at[1] == 'x') {
    c->at += 2;
    type->rank = KEEL_RANK_UNKNOWN;
  } else {
    while (c->at < c->end && (is_digit(*c->at) || *c->at == '?'))
      KEEL_TRY(dimension(c, type));
  }
  KEEL_TRY(element_type(c, type));
  return keel_mlir_expect(c, ">");
}

keel_status keel_mlir_type(cursor *c, mlir_type *type) {
  *type = (mlir_type){.kind = MLIR_VALUE, .rank = 0};
  if (keel_mlir_take(c, "tensor")) {
    type->kind = MLIR_TENSOR;
    return tensor_type(c, type);
  }
  if (keel_mlir_take(c, "none")) {
    type->kind = MLIR_NONE;
    return KD_OK;
  }
  if (keel_mlir_take(c, "!keel.value")) return KD_OK;
  if (keel_mlir_take(c, "!keel.sequence")) {
    type->flags = KEEL_PORT_SEQUENCE;
    return KD_OK;
  }
  if (keel_mlir_take(c, "!keel.optional")) {
    type->flags = KEEL_PORT_OPTIONAL;
    return KD_OK;
  }
  if (keel_mlir_take(c, "!keel.optional_sequence")) {
    type->flags = KEEL_PORT_OPTIONAL | KEEL_PORT_SEQUENCE;
    return KD_OK;
  }
  if (keel_mlir_take(c, "!keel.resource")) {
    type->flags = KEEL_PORT_RESOURCE;
    return KD_OK;
  }
  return keel_mlir_fail(c,
                        "a type should come here: tensor<...>, none or"
                        " !keel.value");
}
