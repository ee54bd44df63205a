/* kd/option.h - a plugin's options, as data.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_OPTION_H
#define KD_OPTION_H

#include <kd/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of an option's value, which is given as text. A reader treats a number
 * that it does not know as KD_OPTION_TEXT. */
#define KD_OPTION_TEXT    0u
#define KD_OPTION_INTEGER 1u /* "-12": decimal digits; fits in int64_t */
#define KD_OPTION_REAL    2u /* "0.5", "-2", "1e-3"; a point in any locale */

/* An option that the plugin reads through kd_host.option: const, valid while
 * the library is loaded. The host copies it, strings included, at load. */
typedef struct kd_option_def {
  uint32_t struct_size; /* sizeof(kd_option_def) as the plugin knew it */
  uint32_t flags;       /* none yet */
  const char *name;     /* [a-z][a-z0-9_]{0,31}; each name once */
  uint32_t type;        /* KD_OPTION_* */
  uint32_t reserved;

  /* The possible values, separated by '|' ("auto|on|off"), each of the type;
   * NULL: all of the type. */
  const char *choices;

  /* The value that the plugin uses if none is given; it may also be given.
   * NULL: there is no such value. */
  const char *default_value;

  const char *doc; /* one sentence on one line, for users; UTF-8 */
} kd_option_def;

#ifdef __cplusplus
}
#endif
#endif /* KD_OPTION_H */
