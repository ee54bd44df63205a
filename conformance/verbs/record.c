/* record.c - reading a results.jsonl that somebody names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "system/json.h"
#include "verbs/words.h"

#define FORMAT 1 /* of the lines, as they are written here */

bool kc_readable(const char *path) {
  struct stat facts;
  FILE *file = NULL;
  if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) {
    fprintf(stderr,
            "keel-conformance: %s is a folder; name a file, as"
            " %s/results.jsonl\n",
            path, path);
    return false;
  }
  file = fopen(path, "rbe");
  if (!file)
    fprintf(stderr,
            "keel-conformance: %s can't be read: %s; run PLUGIN --out DIR"
            " writes DIR/results.jsonl\n",
            path, strerror(errno));
  else
    fclose(file);
  return file != NULL;
}

/* The format that the first line names; 0: none. */
static double format_of(const char *path) {
  char *text = NULL;
  size_t capacity = 0;
  double format = 0;
  FILE *file = fopen(path, "rbe");
  if (file && getline(&text, &capacity, file) > 0) {
    cJSON *line = cJSON_Parse(text);
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, "format");
    if (cJSON_IsNumber(item)) format = item->valuedouble;
    cJSON_Delete(line);
  }
  if (file) fclose(file);
  free(text);
  return format;
}

bool kc_record_read(const char *path, kc_results *out) {
  memset(out, 0, sizeof *out);
  if (!kc_readable(path)) return false;
  double format = format_of(path);
  if (format && format != FORMAT) {
    fprintf(stderr,
            "keel-conformance: %s is of format %g, and this suite reads %d:"
            " use the keel-conformance that wrote it, or run the rules"
            " again\n",
            path, format, FORMAT);
    return false;
  }
  if (kc_results_read(path, out) && format) return true;
  fprintf(stderr,
          "keel-conformance: the run that wrote %s was cut off, or it is not a "
          "results.jsonl; run the rules again, with --out DIR\n",
          path);
  kc_results_free(out);
  return false;
}

bool kc_record_whole(const char *path, const kc_results *results) {
  if (results->complete) return true;
  fprintf(stderr, "keel-conformance: %s %s; run the rules again\n", path,
          results->tampered ? "was changed: its lines are not as they were"
                              " written"
                            : "is incomplete: the run was cut off");
  return false;
}
