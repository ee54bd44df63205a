/* work.c - notes the newest work of a device, and names it. */
#include "device/work.h"

#define KEPT  64 /* pieces of work; a power of two */
#define WHERE 64 /* bytes of a node's name */
#define TEXT  400

typedef struct launched {
  const char *op;
  const keel_type *types[KEEL_WORK_TYPES];
  uint32_t type_count; /* of the op, though fewer are noted */
  keel_type_words *type_text;
  char where[WHERE];
} launched;

struct keel_work {
  uint64_t ticket;
  uint32_t count; /* launches */
  bool is_run, recorded;
  launched first, last; /* last: of a run */
  char of[WHERE];
};

/* ---- notes ------------------------------------------------------------------------- */

static void copy_text(char *to, size_t size, const char *from) {
  size_t length = strnlen(from, size - 1);
  memcpy(to, from, length);
  to[length] = 0;
}

static void note_launch(launched *to, const keel_work_name *name) {
  to->op = name->op;
  to->type_count = name->type_count;
  to->type_text = name->type_text;
  for (uint32_t i = 0; i < name->type_count && i < KEEL_WORK_TYPES; i++)
    to->types[i] = name->types[i];
  copy_text(to->where, sizeof to->where, name->where);
}

/* Made when the first work is noted; NULL: no memory, and nothing is noted. */
static keel_work *work_place(keel_device *device, uint64_t ticket) {
  keel_failures *all = &device->failures;
  if (!ticket) return NULL; /* it has no stream */
  assert(KEEL_IS_LOCKED(&device->stream_lock));
  if (!all->noted) all->noted = calloc(KEPT, sizeof *all->noted);
  keel_work *work = all->noted ? &all->noted[ticket % KEPT] : NULL;
  if (work) work->ticket = ticket;
  return work;
}

void keel_work_note(keel_device *device, uint64_t ticket,
                    const keel_work_name *name) {
  keel_work *work = work_place(device, ticket);
  if (!work) return;
  work->count = 1;
  work->is_run = false;
  note_launch(&work->first, name);
}

void keel_work_note_run(keel_device *device, uint64_t ticket, const char *of,
                        uint32_t count, bool recorded,
                        const keel_work_name *first,
                        const keel_work_name *last) {
  keel_work *work = work_place(device, ticket);
  if (!work) return;
  work->count = count;
  work->is_run = true;
  work->recorded = recorded;
  note_launch(&work->first, first);
  note_launch(&work->last, last);
  copy_text(work->of, sizeof work->of, of);
}

/* ---- words ------------------------------------------------------------------------- */

/* "Concat "joined" (f32[2] f32[3])" */
static const char *in_words(const launched *one, char text[TEXT]) {
  int at = snprintf(text, TEXT, "%s%s%s%s", one->op, *one->where ? " \"" : "",
                    one->where, *one->where ? "\"" : "");
  const char *before = " (";
  for (uint32_t i = 0; i < one->type_count && i < KEEL_WORK_TYPES; i++) {
    char type[200];
    if (!one->types[i] || at < 0 || at >= TEXT) continue;
    at += snprintf(text + at, (size_t)(TEXT - at), "%s%s", before,
                   one->type_text(one->types[i], type, sizeof type));
    before = " ";
  }
  if (*before && before[1] != '(' && at >= 0 && at < TEXT)
    snprintf(text + at, (size_t)(TEXT - at), "%s",
             one->type_count > KEEL_WORK_TYPES ? " ...)" : ")");
  return text;
}

static const launched *last_of(const keel_work *work) {
  return work->is_run ? &work->last : &work->first;
}

keel_status keel_work_while_one(const keel_device *device,
                                const keel_work_name *name,
                                keel_status status) {
  char text[TEXT];
  launched one;
  note_launch(&one, name);
  return keel_while(status, "while %s ran %s", device->name,
                    in_words(&one, text));
}

/* One piece of work. */
static keel_status while_piece(const keel_device *device, const keel_work *work,
                               keel_status status) {
  char first[TEXT], last[TEXT];
  in_words(&work->first, first);
  if (work->count == 1)
    return keel_while(status, "while %s ran %s", device->name, first);
  return keel_while(
      status, "while %s ran one of the %u launches of %s%s%s%s, %s to %s",
      device->name, (unsigned)work->count,
      work->recorded ? "a recording of " : "", *work->of ? "\"" : "",
      *work->of ? work->of : "the program", *work->of ? "\"" : "", first,
      in_words(last_of(work), last));
}

keel_status keel_work_while(keel_device *device, uint64_t after, uint64_t last,
                            keel_status status) {
  const keel_work *noted = device->failures.noted, *oldest = NULL,
                  *newest = NULL;
  uint64_t launches = 0;
  bool all = last - after <= KEPT;
  assert(KEEL_IS_LOCKED(&device->stream_lock));
  if (!noted) return status;
  for (uint64_t i = all ? after + 1 : last - KEPT + 1; i <= last; i++) {
    const keel_work *work = &noted[i % KEPT];
    if (work->ticket != i) { /* not noted, for lack of memory */
      launches++;
      continue;
    }
    launches += work->count;
    if (!oldest) oldest = work;
    newest = work;
  }
  if (!oldest) return status;
  if (last - after == 1) return while_piece(device, oldest, status);
  char from[TEXT], to[TEXT];
  return keel_while(
      status, "while %s ran one of %s%llu launches, %s%s to %s", device->name,
      all ? "" : "more than ", (unsigned long long)launches,
      all ? "" : "the newest of which are ", in_words(&oldest->first, from),
      in_words(last_of(newest), to));
}
