/* options.h - the values of a plugin's options. */
#ifndef KEEL_PLUGINS_OPTIONS_H
#define KEEL_PLUGINS_OPTIONS_H

#include <kd/kd.h>
#include <stdbool.h>
#include <string.h>

/* One of a list of options; `choices` and `fallback` as kd_option_def has them. */
#define OPTION(option, values, fallback, text)                      \
  {                                                                 \
    .struct_size = sizeof(kd_option_def), .name = (option),         \
    .choices = (values), .default_value = (fallback), .doc = (text) \
  }

/* Whether the option was given, and is this. */
static inline bool option_is(const kd_host *host, const char *name,
                             const char *value) {
  const char *given = host->option(host, name);
  return given && !strcmp(given, value);
}

/* Whether it is one of "auto|on|off". */
static inline bool option_is_choice(const char *choices, const char *value) {
  size_t size = strlen(value);
  for (const char *at = choices; *at; at += *at == '|') {
    size_t one = strcspn(at, "|");
    if (one == size && !memcmp(at, value, size)) return true;
    at += one;
  }
  return false;
}

/* Refuses a value that is none of its option's choices, which not every host does. */
static inline kd_status options_check(const kd_host *host,
                                      const kd_option_def *options,
                                      size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char *choices = options[i].choices, *name = options[i].name;
    const char *given = choices ? host->option(host, name) : NULL;
    if (given && !option_is_choice(choices, given))
      return host->fail(KD_INVALID_ARGUMENT,
                        "option %s is \"%.100s\"; it is one of %s", name, given,
                        choices);
  }
  return KD_OK;
}

#endif /* KEEL_PLUGINS_OPTIONS_H */
