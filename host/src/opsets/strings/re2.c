/* re2.c - RE2's syntax of regular expressions as PCRE2's. Most of it is the same; written anew is
 * what PCRE2 refuses, or reads as something else: spaces (PCRE2's \s has \v), names of groups,
 * brackets within sets, and signs that may be repeated. */
#include "opsets/strings/text.h"

#ifdef KEEL_WITH_PCRE2

static const char *re2_copy(keel_text *out, const char *at, size_t size) {
  keel_text_add(out, "%.*s", (int)size, at);
  return at + size;
}

/* As far as `end` is reached behind `least` bytes, else those alone. */
static const char *copy_past(keel_text *out, const char *at, const char *end,
                             size_t least) {
  const char *found = strstr(at + least, end);
  return re2_copy(out, at, found ? (size_t)(found - at) + strlen(end) : least);
}

static const char *re2_put(keel_text *out, const char *text, const char *next) {
  keel_text_add(out, "%s", text);
  return next;
}

/* The character after a backslash outside of a set. */
static const char *put_escape(keel_text *out, const char *at) {
  switch (at[1]) {
    case 0:
      return re2_copy(out, at, 1);
    case 's':
      return re2_put(out, "[\\t\\n\\f\\r\\x20]", at + 2);
    case 'S':
      return re2_put(out, "[^\\t\\n\\f\\r\\x20]", at + 2);
    case 'v': /* PCRE2 has all that end lines */
      return re2_put(out, "\\x0b", at + 2);
    case 'Q': /* to the end where no \E follows */
      return strstr(at + 2, "\\E") ? copy_past(out, at, "\\E", 2)
                                   : re2_copy(out, at, strlen(at));
    case 'p':
    case 'P':
    case 'x':
      return at[2] == '{' ? copy_past(out, at, "}", 3) : re2_copy(out, at, 2);
    case 'A':
    case 'z':
    case 'b':
    case 'B':
      keel_text_add(out, "(?:\\%c)", at[1]);
      return at + 2;
    default:
      return re2_copy(out, at, 2);
  }
}

static const char *put_escape_in_set(keel_text *out, const char *at) {
  switch (at[1]) {
    case 0:
      return re2_copy(out, at, 1);
    case 's':
      return re2_put(out, "\\t\\n\\f\\r\\x20", at + 2);
    case 'S':
      return re2_put(out, "\\x00-\\x08\\x0b\\x0e-\\x1f\\x21-\\x{10ffff}",
                     at + 2);
    case 'v':
      return re2_put(out, "\\x0b", at + 2);
    case 'p':
    case 'P':
    case 'x':
      if (at[2] == '{') return copy_past(out, at, "}", 3);
      return re2_copy(out, at, at[1] != 'x' && at[2] ? 3 : 2);
    default:
      return re2_copy(out, at, 2);
  }
}

/* A set, from its [ on. A [ within it is an element, but in [:name:]. */
static const char *put_set(keel_text *out, const char *at) {
  at = re2_copy(out, at, at[1] == '^' ? 2 : 1);
  if (*at == ']') at = re2_copy(out, at, 1);
  while (*at && *at != ']') {
    bool many = *at == '\\' && at[1] && strchr("dDsSwWpP", at[1]);
    if (at[0] == '[' && at[1] == ':' && strstr(at, ":]")) {
      at = copy_past(out, at, ":]", 2);
      many = true;
    } else if (*at == '[') {
      at = re2_put(out, "\\[", at + 1);
    } else {
      at = *at == '\\' ? put_escape_in_set(out, at) : re2_copy(out, at, 1);
    }
    if (many && at[0] == '-' && at[1] != ']') at = re2_put(out, "\\-", at + 1);
  }
  return *at ? re2_copy(out, at, 1) : at;
}

/* A group, from its ( on. Nothing asks for its name, and RE2 takes more names. */
static const char *put_group(keel_text *out, const char *at) {
  const char *name = !strncmp(at, "(?P<", 4)  ? at + 4
                     : !strncmp(at, "(?<", 3) ? at + 3
                                              : NULL;
  const char *end = name ? strchr(name, '>') : NULL;
  if (!end || end == name || *name == '=' || *name == '!')
    return re2_copy(out, at, 1);
  return re2_put(out, "(", end + 1);
}

void keel_re2_to_pcre2(const char *pattern, keel_text *out_text) {
  const char *at = pattern;
  while (*at) {
    if (*at == '\\') {
      at = put_escape(out_text, at);
    } else if (*at == '[') {
      at = put_set(out_text, at);
    } else if (*at == '(') {
      at = put_group(out_text, at);
    } else if (*at == '^' || *at == '$') {
      keel_text_add(out_text, "(?:%c)", *at++);
    } else {
      at = re2_copy(out_text, at, 1);
    }
  }
}

#endif
