/* expect.c - the vendor's file of expected failures. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runner/run.h"
#include "system/json.h"

static char *text_of(const cJSON *object, const char *name) {
  const char *text =
      cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
  return text && *text ? strdup(text) : NULL;
}

static bool is_date(const char *text) {
  struct tm broken = {0};
  const char *end = strptime(text, "%Y-%m-%d", &broken);
  return end && !*end && strlen(text) == 10;
}

static bool expect_take(const char *path, int number, const cJSON *object,
                        kc_expectation *out) {
  char today[16];
  time_t now = time(NULL);
  struct tm broken;
  gmtime_r(&now, &broken);
  strftime(today, sizeof today, "%Y-%m-%d", &broken);
  out->name = text_of(object, "case");
  out->reason = text_of(object, "reason");
  out->link = text_of(object, "link");
  out->expires = text_of(object, "expires");
  if (!out->name || !out->reason || !out->link || !out->expires) {
    fprintf(stderr,
            "keel-conformance: %s: expectation %d lacks its %s; each has case,"
            " reason, link and expires\n",
            path, number,
            !out->name     ? "case"
            : !out->reason ? "reason"
            : !out->link   ? "link"
                           : "expires");
    return false;
  }
  if (!is_date(out->expires)) {
    fprintf(stderr,
            "keel-conformance: %s: %s expires \"%s\", which is not a date like "
            "2027-01-31\n",
            path, out->name, out->expires);
    return false;
  }
  if (strpbrk(out->name, "*?[") || !strchr(out->name, '/')) {
    fprintf(stderr,
            "keel-conformance: %s: \"%s\" is not the exact name of a case\n",
            path, out->name);
    return false;
  }
  out->expired = strcmp(out->expires, today) < 0;
  return true;
}

bool kc_expectations_read(const char *path, kc_expectations *out) {
  memset(out, 0, sizeof *out);
  FILE *file = fopen(path, "rbe");
  if (!file) {
    fprintf(stderr, "keel-conformance: %s can't be read\n", path);
    return false;
  }
  char *text = calloc(1, 1 << 20);
  size_t size = fread(text, 1, (1 << 20) - 1, file);
  fclose(file);
  cJSON *list = size ? cJSON_Parse(text) : NULL;
  free(text);
  if (!cJSON_IsArray(list)) {
    fprintf(stderr, "keel-conformance: %s is not a JSON list of expectations\n",
            path);
    cJSON_Delete(list);
    return false;
  }
  bool good = true;
  int count = cJSON_GetArraySize(list);
  out->all = calloc((size_t)count + 1, sizeof *out->all);
  for (int i = 0; i < count && good; i++) {
    good = expect_take(path, i + 1, cJSON_GetArrayItem(list, i), &out->all[i]);
    out->count++;
  }
  cJSON_Delete(list);
  return good;
}

kc_expectation *kc_expectations_find(const kc_expectations *all,
                                     const char *name) {
  for (uint32_t i = 0; i < all->count; i++)
    if (!strcmp(all->all[i].name, name)) return &all->all[i];
  return NULL;
}

void kc_expectations_free(kc_expectations *all) {
  for (uint32_t i = 0; i < all->count; i++) {
    free(all->all[i].name);
    free(all->all[i].reason);
    free(all->all[i].link);
    free(all->all[i].expires);
  }
  free(all->all);
  memset(all, 0, sizeof *all);
}
