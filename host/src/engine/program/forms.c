/* forms.c - keeping and finding compiled forms. */
#include "program/forms.h"

#include <kd/host.h>

int keel_form_order(const keel_form *a, const keel_form *b) {
  if (a->graph.a != b->graph.a) return a->graph.a < b->graph.a ? -1 : 1;
  if (a->graph.b != b->graph.b) return a->graph.b < b->graph.b ? -1 : 1;
  int makers = strcmp(a->maker, b->maker);
  if (makers) return makers;
  return a->options < b->options ? -1 : a->options > b->options;
}

/* How many come before it. */
static uint32_t count_before(const keel_forms *forms, const keel_form *form) {
  uint32_t low = 0, high = forms->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (keel_form_order(&forms->list[middle], form) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool forms_is_there(const keel_forms *forms, uint32_t at,
                           const keel_form *form) {
  return at < forms->count && keel_form_order(&forms->list[at], form) == 0;
}

/* ---- adding --------------------------------------------------------------------- */

void keel_forms_add(keel_forms *forms, const keel_form *form) {
  uint32_t at = count_before(forms, form);
  if (forms_is_there(forms, at, form)) return;
  keel_form copy = *form;
  copy.maker = keel_arena_copy(&forms->arena, form->maker);
  copy.data = keel_arena_copy_bytes(&forms->arena, form->data, form->size);
  copy.sum = keel_hash(KEEL_HASH_SEED, form->data, form->size);
  if (!copy.maker || !copy.data ||
      !KEEL_ROOM(forms->list, forms->count, forms->capacity)) {
    forms->failed = true;
    return;
  }
  memmove(&forms->list[at + 1], &forms->list[at],
          (forms->count - at) * sizeof *forms->list);
  forms->list[at] = copy;
  forms->count++;
}

void keel_forms_free(keel_forms *forms) {
  free(forms->list);
  keel_arena_free(&forms->arena);
}

/* ---- finding -------------------------------------------------------------------- */

static bool is_of_plugin(const keel_form *form, const char *maker) {
  size_t size = strcspn(maker, "/") + 1;
  return !strncmp(form->maker, maker, size);
}

/* Why one of the same graph and plugin is not the one that is wanted. */
static keel_status forms_refuse(const keel_form *form,
                                const keel_form *wanted) {
  if (strcmp(form->maker, wanted->maker) != 0)
    return keel_fail(KD_INCOMPATIBLE, "it is for %s, and this is %s",
                     form->maker, wanted->maker);
  return keel_fail(KD_INCOMPATIBLE,
                   "it was made with other options of the plugin");
}

/* Whether there are some for such a device: as far as the first few tell it, since a file
 * says how many there are. */
static bool any_of(const keel_forms *forms, const keel_form *wanted) {
  enum { LOOKED_AT = 64 };
  for (uint32_t i = 0; i < forms->count && i < LOOKED_AT; i++)
    if (forms->list[i].options == wanted->options &&
        !strcmp(forms->list[i].maker, wanted->maker))
      return true;
  return false;
}

keel_status keel_forms_find(const keel_forms *forms, const keel_form *wanted,
                            const keel_form **out_form) {
  uint32_t at = count_before(forms, wanted);
  if (forms_is_there(forms, at, wanted)) {
    const keel_form *form = &forms->list[at];
    if (keel_hash(KEEL_HASH_SEED, form->data, form->size) != form->sum)
      return keel_fail(KD_DATA_LOSS, "its bytes are damaged");
    *out_form = form;
    return KD_OK;
  }
  /* those of one graph and plugin stand together */
  for (uint32_t i = at ? at - 1 : 0; i <= at && i < forms->count; i++) {
    const keel_form *form = &forms->list[i];
    if (form->graph.a == wanted->graph.a && form->graph.b == wanted->graph.b &&
        is_of_plugin(form, wanted->maker))
      return forms_refuse(form, wanted);
  }
  if (any_of(forms, wanted))
    return keel_fail(KD_INCOMPATIBLE,
                     "there is none for this region in the form that this "
                     "Keel's passes (%s) give it",
                     KEEL_VERSION);
  return KD_NOT_FOUND;
}

void keel_forms_no_warnings(keel_forms *forms) {
  atomic_store_explicit(&forms->told, true, memory_order_relaxed);
}

void keel_forms_warn(keel_forms *forms, const keel_log *log, const char *device,
                     const char *why) {
  /* relaxed: it orders nothing */
  bool told =
      atomic_exchange_explicit(&forms->told, true, memory_order_relaxed);
  keel_log_line(log, told ? KD_LOG_DEBUG : KD_LOG_WARNING,
                "%s can't use a compiled form of the program, and compiles the "
                "region again: %s; compile the model again",
                device, why);
}
