/* kd/option.h - the options of a plugin, as data.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_OPTION_H
#define KD_OPTION_H

#include <kd/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the text of an option's value is. A reader takes a number that it does
 * not know for KD_OPTION_TEXT. */
#define KD_OPTION_TEXT    0u
#define KD_OPTION_INTEGER 1u /* "-12": decimal digits, in 64 bits with a sign */
#define KD_OPTION_REAL    2u /* "0.5", "-2", "1e-3"; the point in any locale */

/* An option that the plugin reads by kd_host.option: const, valid while the
 * library is loaded. The host copies it, strings and all, at load. */
typedef struct kd_option_def {
  uint32_t struct_size; /* sizeof(kd_option_def) as the plugin knew it */
  uint32_t flags;       /* none yet */
  const char *name;     /* [a-z][a-z0-9_]{0,31}; each name once */
  uint32_t type;        /* KD_OPTION_* */
  uint32_t reserved;

  /* The values there are, with '|' between ("auto|on|off"), each of the type;
   * NULL: all that the type has. */
  const char *choices;

  /* What the plugin takes where nobody gives a value, which may also be given;
   * NULL: no value stands for that. */
  const char *default_value;

  const char *doc; /* one sentence of one line, for users; UTF-8 */
} kd_option_def;

#ifdef __cplusplus
}
#endif
#endif /* KD_OPTION_H */
