/* rule.h - a rule of the suite, as data. */
#ifndef KC_RULE_H
#define KC_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* What a broken rule means: the claim fails, a warning, or nothing. */
typedef enum kc_severity { KC_MUST, KC_SHOULD, KC_INFO } kc_severity;

/* The level or option of the ABI that a rule belongs to. A plugin claims the
 * levels and options whose tables it fills. */
typedef enum kc_level {
  KC_CORE,
  KC_ASYNC,
  KC_REPLAY,
  KC_COMPILE,
  KC_PROFILE,    /* options from here on */
  KC_PEER,       /* peer table and two devices */
  KC_COLLECTIVE, /* collective table and two devices */
  KC_EXTERNAL,   /* import and export of memory */
  KC_LEVEL_COUNT
} kc_level;

/* The rule works without the plugin being opened, or opens it itself. */
#define KC_CLOSED 0x1u
/* The rule measures time: nothing else runs beside it. */
#define KC_ALONE 0x2u
/* The rule only ever reports what is watched around the calls of all rules. */
#define KC_WATCHED 0x4u
/* Not part of --quick. */
#define KC_LONG 0x8u
/* The check begins cases of its own; without it, it is one case. */
#define KC_CASES 0x10u
/* Many cases that need nothing of each other: --shard spreads them. */
#define KC_SPREAD 0x20u

typedef struct kc_rule {
  const char *id; /* area.name; never used again for another rule */
  kc_severity severity;
  kc_level level;
  uint32_t since;       /* the ABI version it came in: KD_VERSION(0, 10) */
  uint32_t flags;       /* KC_* above */
  const char *header;   /* "stream.h" */
  const char *sentence; /* of the header, word for word */
  const char *names;    /* slots, fields, flags, statuses that it looks at */
  const char *about;    /* what happens if it is broken, and why it often is */
  void (*check)(void);
} kc_rule;

/* A row of an area's table of rules. */
#define KC_RULE(severity_, level_, id_, check_, flags_, header_, sentence_,  \
                names_, about_)                                              \
  {                                                                          \
    .id = id_, .severity = KC_##severity_, .level = KC_##level_,             \
    .since = KD_VERSION(0, 10), .flags = flags_, .header = header_,          \
    .sentence = sentence_, .names = names_, .about = about_, .check = check_ \
  }

/* What somebody's plugin may have wrong, and the rule that must catch it: the proof that
 * the rule can fail. The simulated device has it where KEEL_SIM names it. */
typedef struct kc_defect {
  const char *name, *rule;
  const char *text; /* what is wrong */
  uint32_t how;     /* KC_AROUND ... */
  /* KC_AROUND: the rule that the plugin must have something for; NULL: `rule` */
  const char *needs;
} kc_defect;

/* fault.so puts it around any plugin, where KEEL_FAULT names it; the simulated device
 * knows nothing of it. */
#define KC_AROUND 0x1u
/* It takes the right moment to show. */
#define KC_RACE 0x2u
/* It is a library of its own: stub_NAME.so. */
#define KC_LIBRARY 0x4u
/* It shows where a rule may take 9 GiB: the simulated device's memory is sparse then. */
#define KC_ROOM 0x8u

/* An area: the part of an id before the dot, its rules, and the defects that prove them. */
typedef struct kc_area {
  const char *name;
  const char *title;
  const kc_rule *rules;
  const kc_defect *defects;
  uint32_t count, defect_count;
} kc_area;

#define KC_AREA(name_, title_)                                      \
  const kc_area kc_area_##name_ = {                                 \
      .name = #name_,                                               \
      .title = title_,                                              \
      .rules = rules,                                               \
      .defects = defects,                                           \
      .count = (uint32_t)(sizeof rules / sizeof *rules),            \
      .defect_count = (uint32_t)(sizeof defects / sizeof *defects), \
  }

/* Whether --soak goes on with a rule: those that look for races and for what
 * runs out. */
bool kc_rule_soaks(const kc_rule *rule);

extern const kc_area *const kc_areas[];
extern const uint32_t kc_area_count;

/* All rules, in order of area; NULL past the last. */
const kc_rule *kc_rule_at(uint32_t index);
uint32_t kc_rule_count(void);
const kc_rule *kc_rule_find(const char *id);

/* All defects, in order of area; NULL past the last. */
const kc_defect *kc_defect_at(uint32_t index);
uint32_t kc_defect_count(void);

/* "must", "should", "information"; "core", "async" ... */
const char *kc_severity_name(kc_severity severity);
const char *kc_level_name(kc_level level);

#endif /* KC_RULE_H */
