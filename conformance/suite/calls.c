/* calls.c - each call of a table's slot, whoever makes it, is written down as by KC_CALL, with
 * its numbers, so that a report of a hang names it. The list of slots makes the wrappers. */
#include <stdarg.h>

#include "layers/each.h"
#include "suite/channel.h"
#include "suite/suite.h"

/* ---- what is said of an argument ------------------------------------------------------- */

typedef struct text {
  char of[KC_RING_TEXT];
} text;

static void calls_say(text *to, const char *format, ...) KD_PRINTF(2, 3);
static void calls_say(text *to, const char *format, ...) {
  size_t used = strlen(to->of);
  va_list args;
  va_start(args, format);
  if (used) used += (size_t)snprintf(to->of + used, sizeof to->of - used, ", ");
  if (used < sizeof to->of)
    vsnprintf(to->of + used, sizeof to->of - used, format, args);
  va_end(args);
}

static void say_long(text *to, const char *name, uint64_t value) {
  if (value == UINT64_MAX)
    calls_say(to, "%s UINT64_MAX", name);
  else
    calls_say(to, "%s %llu", name, (unsigned long long)value);
}
static void say_unsigned(text *to, const char *name, uint32_t value) {
  calls_say(to, "%s %u", name, value);
}
static void say_signed(text *to, const char *name, int32_t value) {
  calls_say(to, "%s %d", name, value);
}
static void say_stream(text *to, const char *name, const kd_stream *stream) {
  if (!stream) calls_say(to, "no %s", name);
}
static void say_wanted(text *to, const char *name, const kd_allocation *what) {
  say_long(to, name, what->size);
}
static void say_nothing(text *to, const char *name, ...) {
  (void)to, (void)name;
}

#define SAY(argument) \
  _Generic((argument),                     \
      uint64_t: say_long,                  \
      uint32_t: say_unsigned,              \
      int32_t: say_signed,                 \
      kd_stream *: say_stream,             \
      const kd_allocation *: say_wanted,   \
      default: say_nothing)(&said, #argument, argument);

/* ---- the wrappers ------------------------------------------------------------------------ */

/* The plugin's own tables. */
static kc_plugin inner;

/* What a table is called in kc_plugin. */
#define TABLE_memory             m
#define TABLE_stream             s
#define TABLE_event              e
#define TABLE_capture            c
#define TABLE_region             r
#define TABLE_profile            f
#define TABLE_peer               peer
#define TABLE_external           x
#define TABLE_layout             l
#define TABLE_collective         g
#define IN(plugin, table, slot)  IN_(plugin, table, slot)
#define IN_(plugin, table, slot) plugin.table.slot

#define SEE(name, slot, parameters, arguments, type, call) \
  static type see_##name##_##slot parameters {             \
    text said = {""};                                      \
    if (!kc_inside()) {                                    \
      KEEL_EACH(SAY, arguments)                            \
    }                                                      \
    call(type, IN(inner, TABLE_##name, slot) arguments,    \
         #name "." #slot "(%s)", said.of);                 \
  }
#define RETURNED(type, call, ...) \
  return kc_inside() ? (call) : KC_CALL(type, call, __VA_ARGS__)
#define DONE(type, call, ...) \
  if (kc_inside())            \
    call;                     \
  else                        \
    KC_DO(call, __VA_ARGS__)
#define CALL_void      DONE
#define CALL_kd_status RETURNED
#define CALL_uint32_t  RETURNED
#define CALL_uint64_t  RETURNED

/* A plugin's slots, and those of its definitions, are no table's. */
#define SLOT_plugin(...)
#define SLOT_kernel(...)
#define SLOT_op(...)
#define SLOT_native(...)        /* of an extension: its rules call it */
#define SLOT_memory(f, ...)     f(memory, __VA_ARGS__)
#define SLOT_stream(f, ...)     f(stream, __VA_ARGS__)
#define SLOT_event(f, ...)      f(event, __VA_ARGS__)
#define SLOT_capture(f, ...)    f(capture, __VA_ARGS__)
#define SLOT_region(f, ...)     f(region, __VA_ARGS__)
#define SLOT_profile(f, ...)    f(profile, __VA_ARGS__)
#define SLOT_peer(f, ...)       f(peer, __VA_ARGS__)
#define SLOT_external(f, ...)   f(external, __VA_ARGS__)
#define SLOT_layout(f, ...)     f(layout, __VA_ARGS__)
#define SLOT_collective(f, ...) f(collective, __VA_ARGS__)

#define SLOT(table, name, slot, need, fails, role, without, type, parameters, \
             arguments)                                                       \
  SLOT_##name(SEE, slot, parameters, arguments, type, CALL_##type)
#include "layers/slots.def"
#undef SLOT

#define WATCH(name, slot)         \
  if (IN(kp, TABLE_##name, slot)) \
    IN(kp, TABLE_##name, slot) = see_##name##_##slot;

void kc_watch_tables(void) {
  inner = kp;
#define SLOT(table, name, slot, need, fails, role, without, type, parameters, \
             arguments)                                                       \
  SLOT_##name(WATCH, slot)
#include "layers/slots.def"
#undef SLOT
}
