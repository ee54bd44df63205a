/* property.c - what is known of a device beside its facts. */
#include <math.h>

#include "rules/plugin/property.h"
#include "rules/rules.h"

#define MOST 1000

/* The names that mean the same in all plugins, as kd/property.h has them. */
static const struct {
  const char *name;
  uint32_t type;
  const char *unit;
} standard[] = {
    {"architecture", KD_PROPERTY_TEXT, ""},
    {"api", KD_PROPERTY_TEXT, ""},
    {"clock", KD_PROPERTY_INTEGER, "Hz"},
    {"memory_clock", KD_PROPERTY_INTEGER, "Hz"},
    {"memory_bus", KD_PROPERTY_INTEGER, "bits"},
    {"cache", KD_PROPERTY_INTEGER, "bytes"},
    {"local_memory", KD_PROPERTY_INTEGER, "bytes"},
    {"group_size", KD_PROPERTY_INTEGER, ""},
    {"peak_flops_f64", KD_PROPERTY_INTEGER, "1/s"},
    {"peak_flops_f16", KD_PROPERTY_INTEGER, "1/s"},
    {"peak_ops_i8", KD_PROPERTY_INTEGER, "1/s"},
    {"power_limit", KD_PROPERTY_REAL, "W"},
    {"power", KD_PROPERTY_REAL, "W"},
    {"temperature", KD_PROPERTY_REAL, "C"},
};

/* A property with its texts copied. */
typedef struct copied {
  kd_property it;
  char name[64], unit[16], text[256];
} copied;

static kd_status property_ask(uint32_t device, uint32_t index,
                              kd_property *out) {
  *out = (kd_property){.struct_size = sizeof *out};
  return KC_CALL(kd_status, kp.p.property(kp.instance, device, index, out),
                 "property(%u, %u)", device, index);
}

static bool is_line(const char *text, size_t most) {
  return strlen(text) <= most && kc_utf8(text) &&
         !strpbrk(text, "\n\r\t\x1b\x7f");
}

static void check_name(const kd_property *p, uint32_t index) {
  KC_NEED(p->name != NULL, "property %u has no name", index);
  size_t size = strspn(p->name, "abcdefghijklmnopqrstuvwxyz0123456789_.-");
  kc_check(!p->name[size] && size <= 63 && *p->name >= 'a' && *p->name <= 'z',
           "property %u is called \"%.80s\", which does not match"
           " [a-z][a-z0-9_.-]{0,62}",
           index, p->name);
  const char *unit = p->unit ? p->unit : "";
  size_t own = strlen(kp.p.name);
  bool known = !strncmp(p->name, kp.p.name, own) && p->name[own] == '.';
  for (size_t i = 0; i < KC_COUNT_OF(standard); i++) {
    if (strcmp(standard[i].name, p->name) != 0) continue;
    known = true;
    kc_check(!strcmp(standard[i].unit, unit),
             "property %s is in \"%.20s\", and everywhere else in \"%s\"",
             p->name, unit, standard[i].unit);
    kc_check(p->type == standard[i].type || p->type == KD_PROPERTY_NONE,
             "property %s has type %u, and everywhere else %u", p->name,
             p->type, standard[i].type);
  }
  kc_check(known || kp.p.abi_version > KD_ABI_VERSION,
           "property %s is none of kd/property.h, and does not begin with"
           " \"%s.\"",
           p->name, kp.p.name);
  kc_check(is_line(unit, 15), "the unit of %s is no text of 15 bytes", p->name);
}

static void property_check_value(const kd_property *p) {
  kc_check(p->type <= KD_PROPERTY_TEXT || kp.p.abi_version > KD_ABI_VERSION,
           "property %s has type %u", p->name, p->type);
  kc_check((p->flags & ~KD_HINTS) == 0 || kp.p.abi_version > KD_ABI_VERSION,
           "property %s has unknown flags 0x%x", p->name, p->flags);
  kc_check(p->type || (p->flags & KD_PROPERTY_CHANGES),
           "property %s has no value, and never will", p->name);
  kc_check(p->type != KD_PROPERTY_REAL || isfinite(p->real),
           "property %s is no finite number", p->name);
  kc_check(p->type != KD_PROPERTY_TEXT || (p->text && is_line(p->text, 255)),
           "property %s is no line of UTF-8", p->name);
  kc_check(!p->reserved, "kd_property.reserved of %s is %u", p->name,
           p->reserved);
}

/* Walks to the end, which must come. Returns how many there were; *out is to be freed. */
static uint32_t property_walk(uint32_t device, copied **out) {
  copied *all = kc_take(MOST * sizeof *all);
  kd_property p;
  kd_status status = KD_OK;
  uint32_t count = 0;
  for (; count < MOST; count++) {
    status = property_ask(device, count, &p);
    if (status != KD_OK || !p.name) break;
    all[count].it = p;
    snprintf(all[count].name, sizeof all[count].name, "%s", p.name);
    snprintf(all[count].unit, sizeof all[count].unit, "%s",
             p.unit ? p.unit : "");
    snprintf(all[count].text, sizeof all[count].text, "%s",
             p.type == KD_PROPERTY_TEXT && p.text ? p.text : "");
  }
  *out = all;
  return count;
}

static void check_end(uint32_t device, uint32_t count) {
  kd_property p;
  kc_check(count < MOST, "device %u has %u properties and more", device, MOST);
  const uint32_t wrong[] = {count, count + 1, UINT32_MAX};
  for (size_t i = 0; i < KC_COUNT_OF(wrong); i++) {
    kd_status status = property_ask(device, wrong[i], &p);
    kc_check(status == KD_OUT_OF_RANGE,
             "property(%u), of %u, returned %s for device %u", wrong[i], count,
             kd_status_name(status), device);
  }
}

static void need(uint32_t *out_count) {
  *out_count = kc_device_count();
  if (!kp.p.property) kc_unclaimed("kd_plugin.property is NULL");
}

void kc_properties(void) {
  static const char *const facts[] = {
      "name",           "driver",    "kind",    "compute_units",
      "memory",         "uuid",      "pci",     "numa_node",
      "peak_flops_f32", "bandwidth", "kernels", "max_in_flight"};
  uint32_t devices = 0;
  need(&devices);
  for (uint32_t d = 0; d < devices && d < KC_MAX_DEVICES; d++) {
    copied *all = NULL;
    kd_property p;
    for (uint32_t i = 0; i < MOST && property_ask(d, i, &p) == KD_OK; i++) {
      check_name(&p, i);
      property_check_value(&p);
      for (size_t k = 0; k < KC_COUNT_OF(facts); k++)
        kc_check(strcmp(facts[k], p.name) != 0,
                 "property %s is a fact of kd_device_info", p.name);
    }
    uint32_t count = property_walk(d, &all);
    for (uint32_t i = 0; i < count; i++)
      for (uint32_t k = 0; k < i; k++)
        kc_check(strcmp(all[i].name, all[k].name) != 0,
                 "properties %u and %u are both called %s", k, i, all[i].name);
    free(all);
    check_end(d, count);
    kc_note("device %u has %u properties", d, count);
  }
  kd_property p;
  kd_status status = property_ask(devices, 0, &p);
  kc_check(status == KD_OUT_OF_RANGE,
           "property of device %u, of %u, returned %s", devices, devices,
           kd_status_name(status));
}

/* One walk beside another. */
static void property_compare(const copied *a, const copied *b) {
  kc_check(!strcmp(a->name, b->name) && !strcmp(a->unit, b->unit),
           "property %s (%s) is %s (%s) the next time", a->name, a->unit,
           b->name, b->unit);
  kc_check(a->it.flags == b->it.flags, "property %s has other flags", a->name);
  if (a->it.flags & KD_PROPERTY_CHANGES) return;
  bool same =
      a->it.type == b->it.type && !strcmp(a->text, b->text) &&
      (a->it.type != KD_PROPERTY_INTEGER || a->it.integer == b->it.integer) &&
      (a->it.type != KD_PROPERTY_REAL || a->it.real == b->it.real);
  kc_check(same,
           "property %s has another value the next time, and no"
           " KD_PROPERTY_CHANGES",
           a->name);
}

void kc_properties_stable(void) {
  uint32_t devices = 0;
  copied *first = NULL;
  need(&devices);
  kc_need_device();
  uint32_t count = property_walk(kc.device, &first);
  for (int i = 0; i < 3; i++) {
    copied *again = NULL;
    if (i == 1) kc_device(); /* and while it is open */
    uint32_t now = property_walk(kc.device, &again);
    if (kc_check(now == count, "there are %u properties, and were %u", now,
                 count))
      for (uint32_t k = 0; k < count; k++)
        property_compare(&first[k], &again[k]);
    free(again);
  }
  free(first);
}

void kc_property_bounded(void) {
  static const uint32_t sizes[] = {PROPERTY_010, sizeof(kd_property),
                                   sizeof(kd_property) + 256};
  uint32_t devices = 0;
  need(&devices);
  for (size_t i = 0; i < KC_COUNT_OF(sizes); i++) {
    if (!kc_case("size=%u", sizes[i])) continue;
    size_t known =
        sizes[i] < sizeof(kd_property) ? sizes[i] : sizeof(kd_property);
    const size_t all = sizeof(kd_property) + 512;
    kd_property *p = kc_bounded(sizes[i], known, all);
    kd_status status =
        KC_CALL(kd_status, kp.p.property(kp.instance, kc.device, 0, p),
                "property(struct_size %u)", sizes[i]);
    kc_check(status == KD_OK || status == KD_OUT_OF_RANGE,
             "property returned %s", kd_status_name(status));
    kc_check(kc_bounded_whole(p, known, all) ||
                 (sizes[i] > known && kp.p.abi_version > KD_ABI_VERSION),
             "property wrote past struct_size %u", sizes[i]);
  }
}
