/* option.c - the list of a plugin's options. */
#include "loader/loader.h"
#include "rules/rules.h"

static void need_list(void) {
  kc_load();
  if (!kp.p.options) kc_unclaimed("kd_plugin.options is NULL");
}

/* ---- the list ------------------------------------------------------------- */

static void check_name(uint32_t index) {
  const char *name = kp.options[index].name;
  KC_NEED(name != NULL, "option %u has no name", index);
  size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
  kc_check(!name[size] && size <= 32 && *name >= 'a' && *name <= 'z',
           "option %u is called \"%.60s\", which does not match"
           " [a-z][a-z0-9_]{0,31}",
           index, name);
  for (uint32_t i = 0; i < index; i++)
    kc_check(strcmp(kp.options[i].name, name) != 0,
             "options %u and %u are both called %s", i, index, name);
}

/* Each choice is a value of the type that stands there once. */
static void check_choices(const kd_option_def *def) {
  kd_option_def plain = *def;
  plain.choices = NULL;
  for (const char *at = def->choices; at;) {
    size_t size = strcspn(at, "|");
    char one[100];
    snprintf(one, sizeof one, "%.*s", (int)size, at);
    kc_check(size > 0 && size < sizeof one && keel_option_fits(&plain, one),
             "option %s: its choice \"%s\" is no value of its type", def->name,
             one);
    at = at[size] ? at + size + 1 : NULL;
  }
}

static void check_words(const kd_option_def *def) {
  const char *doc = def->doc ? def->doc : "";
  size_t size = strlen(doc);
  kc_check(
      size > 1 && size < 300 && kc_utf8(doc) && !strpbrk(doc, "\n\r\t\x1b"),
      "option %s: its doc is no sentence of one line", def->name);
  kc_check(!def->default_value || keel_option_fits(def, def->default_value),
           "option %s: its default_value \"%.60s\" is none of its values",
           def->name, def->default_value ? def->default_value : "");
}

static void option_list(void) {
  need_list();
  uint32_t count = kp.p.option_count;
  uint32_t size = count ? kp.p.options->struct_size : 0;
  KC_NEED(!count || kp.options, "kd_option_def.struct_size is %u", size);
  kc_check(count <= 1000, "option_count is %u", count);
  for (uint32_t i = 0; i < count; i++) {
    const kd_option_def *def = &kp.options[i];
    check_name(i);
    kc_check((def->flags & ~KD_HINTS) == 0 || kp.p.abi_version > KD_ABI_VERSION,
             "option %s has unknown flags 0x%x", def->name, def->flags);
    kc_check(def->type <= KD_OPTION_REAL || kp.p.abi_version > KD_ABI_VERSION,
             "option %s has type %u", def->name, def->type);
    kc_check(!def->reserved, "kd_option_def.reserved of %s is %u", def->name,
             def->reserved);
    check_choices(def);
    check_words(def);
  }
  kc_check(!kp.p.reserved_options, "kd_plugin.reserved_options is %u",
           kp.p.reserved_options);
}

/* ---- values --------------------------------------------------------------- */

/* Opens the plugin and its first device with one option more, which goes first. */
static kd_status open_given(const char *option) {
  const char *all[64] = {option};
  const char *const *before = kc.options;
  uint32_t count = kc.option_count;
  for (uint32_t i = 0; i < count && i < 63; i++)
    all[i + 1] = before[i];
  kc.options = all;
  kc.option_count = count < 63 ? count + 1 : 64;
  kc_hush();
  kd_status status = kc_open();
  kd_device *device = NULL;
  if (status == KD_OK && kc_device_count()) {
    status = KC_CALL(kd_status, kp.p.device_open(kp.instance, 0, &device),
                     "device_open(0)");
    if (status == KD_OK) KC_DO(kp.p.device_close(device), "device_close");
  }
  kc_close();
  kc.options = before;
  kc.option_count = count;
  return status;
}

static void open_with_choice(const kd_option_def *def, const char *value,
                             size_t size) {
  char option[200];
  snprintf(option, sizeof option, "%s=%.*s", def->name, (int)size, value);
  kd_status status = open_given(option);
  kc_check(status == KD_OK || *kc_message(),
           "open refused its own choice \"%s\" with %s and no message", option,
           kd_status_name(status));
}

static void option_values(void) {
  need_list();
  kd_status plain = open_given("");
  for (uint32_t i = 0; i < kp.option_count; i++) {
    const kd_option_def *def = &kp.options[i];
    if (!def->name || !kc_case("option=%s", def->name)) continue;
    if (def->default_value) {
      char option[200];
      snprintf(option, sizeof option, "%s=%.150s", def->name,
               def->default_value);
      kd_status status = open_given(option);
      kc_check(status == plain,
               "opening with \"%s\", its default, returned %s, and %s without:"
               " %s",
               option, kd_status_name(status), kd_status_name(plain),
               kc_message());
    }
    for (const char *at = def->choices; at && *at;) {
      size_t size = strcspn(at, "|");
      open_with_choice(def, at, size);
      at += size + (at[size] == '|');
    }
    kc_check(true, " ");
  }
}

static const kc_rule rules[] = {
    KC_RULE(MUST, CORE, "option.list", option_list, KC_CLOSED, "option.h",
            "each name once",
            "kd_plugin.options kd_plugin.option_count"
            " kd_plugin.reserved_options kd_option_def.struct_size"
            " kd_option_def.flags kd_option_def.name kd_option_def.type"
            " kd_option_def.reserved kd_option_def.choices"
            " kd_option_def.default_value kd_option_def.doc KD_OPTION_TEXT"
            " KD_OPTION_INTEGER KD_OPTION_REAL",
            "The host refuses a plugin whose list it can't read, and users"
            " read the rest of it in `keel plugins --options`."),
    KC_RULE(MUST, CORE, "option.values", option_values, KC_CLOSED | KC_CASES,
            "option.h",
            "The value that the plugin uses if none is given; it may also"
            " be given",
            "kd_option_def.default_value kd_option_def.choices kd_host.option"
            " kd_plugin.open",
            "A list that says other values than `open` takes sends users in"
            " circles."),
    KC_RULE(MUST, CORE, "option.complete", kc_smoke, KC_WATCHED, "plugin.h",
            "It lists every option that the plugin ever reads through"
            " kd_host.option",
            "kd_plugin.options kd_host.option",
            "The host refuses an option that is not listed, so nobody can set"
            " it. Watched over all rules."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(option_nameless, "option.list", "an option has no name"),
    DEFECT(option_twice, "option.list", "two options have one name"),
    DEFECT(option_size_zero, "option.list", "the options' struct_size is forgotten"),
    DEFECT(option_undocumented, "option.list", "an option says nothing of itself"),
    DEFECT(option_default_misfit, "option.list", "an option's default is none of its choices"),
    DEFECT(option_default_refused, "option.values", "open refuses an option's default"),
    DEFECT(option_unlisted, "option.complete", "open reads an option that is not listed"),
};
/* clang-format on */

KC_AREA(option, "Options");
