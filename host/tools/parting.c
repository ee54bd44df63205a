/* parting.c - kinds of splits, and the ranks' speeds. */
#include "parting.h"

int parting_kind(const char *word) {
  static const char *const names[] = {
      [KEEL_SPLIT_DATA] = "data",
      [KEEL_SPLIT_TENSOR] = "tensor",
      [KEEL_SPLIT_PIPE] = "pipe",
      [KEEL_SPLIT_ANNOTATED] = "annotated",
  };
  for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
    if (!strcmp(names[i], word)) return i;
  return -1;
}

int parting_check(const char *command, const char *split, uint64_t parts) {
  if (split && parting_kind(split) < 0)
    return usage_error(command,
                       "--split is \"%s\"; it is data, tensor, pipe or"
                       " annotated",
                       split);
  if (parts && (!split || parting_kind(split) != KEEL_SPLIT_PIPE))
    return usage_error(command, "--parts goes with --split pipe");
  return -1;
}

static void note_name(parting_dims *dims, const char *symbol) {
  char quoted[256];
  size_t size = strlen(dims->names);
  snprintf(quoted, sizeof quoted, " \"%s\"", symbol);
  if (!strstr(dims->names, quoted))
    snprintf(dims->names + size, sizeof dims->names - size, "%s", quoted);
}

int64_t parting_size(parting_dims *dims, const char *symbol) {
  int64_t first = -1;
  if (!symbol) return -1;
  note_name(dims, symbol);
  for (uint32_t i = 0; i < dims->given->count; i++) {
    int64_t size = size_for(dims->given->words[i], symbol);
    dims->used[i] |= size >= 0;
    if (first < 0) first = size;
  }
  return first;
}

bool parting_knows(const parting_dims *dims, const char *command,
                   keel_status status) {
  bool asked = status == KD_OK || *dims->names;
  for (uint32_t i = 0; i < dims->given->count && asked; i++)
    if (!dims->used[i]) {
      progress_end();
      fprintf(stderr,
              "keel %s: --dim %s is not NAME=SIZE of an open dimension; the"
              " model's inputs have%s\n",
              command, shown(dims->given->words[i]),
              *dims->names ? shown(dims->names) : " none that has a name");
      return false;
    }
  return true;
}

/* A rank's speed, and the kind of its device. */
typedef struct measured {
  keel_split_speed speed;
  char kind[128];
} measured;

static keel_status parting_measure(keel_device *device, measured *out) {
  keel_device_facts facts;
  memset(out, 0, sizeof *out);
  keel_device_describe(device, &facts);
  snprintf(out->kind, sizeof out->kind, "%s, %s", facts.kind, facts.product);
  return keel_split_measure(device, &out->speed);
}

/* The mean of those of one kind: what differs between them is how busy the machine was. */
static void level(const measured *all, uint32_t count,
                  keel_split_speed *speeds) {
  for (uint32_t i = 0; i < count; i++) {
    double same = 0;
    speeds[i] = (keel_split_speed){0};
    for (uint32_t k = 0; k < count; k++) {
      if (strcmp(all[i].kind, all[k].kind) != 0) continue;
      same++;
      speeds[i].flops += all[k].speed.flops;
      speeds[i].bytes += all[k].speed.bytes;
      speeds[i].launch += all[k].speed.launch;
    }
    speeds[i].flops /= same;
    speeds[i].bytes /= same;
    speeds[i].launch /= same;
  }
}

keel_split_speed *parting_speeds(keel_link *link, keel_device *const *devices,
                                 uint32_t count) {
  keel_link_facts facts = {.size = count};
  measured own;
  keel_status status = KD_OK;
  if (link) keel_link_look(link, &facts);
  measured *all = calloc(facts.size, sizeof *all);
  keel_split_speed *speeds = calloc(facts.size, sizeof *speeds);
  if (!all || !speeds) {
    fprintf(stderr, "keel: no memory\n");
    free(all);
    free(speeds);
    return NULL;
  }
  for (uint32_t i = 0; i < count && !link && status == KD_OK; i++)
    status = parting_measure(devices[i], &all[i]);
  if (link) status = parting_measure(devices[0], &own);
  if (link && status == KD_OK)
    status = keel_link_gather(link, &own, sizeof own, all);
  if (status == KD_OK) {
    level(all, facts.size, speeds);
  } else {
    complain();
    free(speeds);
    speeds = NULL;
  }
  free(all);
  return speeds;
}

void parting_print(const char *split, const keel_split_facts *facts) {
  bool annotated = parting_kind(split) == KEEL_SPLIT_ANNOTATED;
  printf("split by %s: %u exchanges; weights %.1f MiB of %.1f MiB",
         annotated ? "annotations" : split, (unsigned)facts->exchanges,
         (double)facts->weights_here / (1u << 20),
         (double)facts->weights / (1u << 20));
  if (facts->parts)
    printf("; %u micro-batch%s; %.0f %% of the time", (unsigned)facts->parts,
           facts->parts == 1 ? "" : "es", facts->share * 100);
  if (annotated)
    printf("; %u of %u annotations followed", (unsigned)facts->followed,
           (unsigned)facts->annotations);
  printf("\n");
}
