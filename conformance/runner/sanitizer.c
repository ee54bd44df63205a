/* sanitizer.c - what a sanitizer says in a child's output: a plugin may be built with one, and
 * its report is then what went wrong. */
#include <stdlib.h>
#include <string.h>

#include "runner/run.h"
/**/
#include "suite/channel.h"

/* Behind "==4711==", or where the line begins: others may say such things, too. */
static bool begins_with(const char *line, const char *what) {
  const char *at = strstr(line, what);
  return at && (at == line || at[-1] == '=');
}

/* "FILE:LINE:COLUMN: runtime error: ..." */
static bool is_undefined(const char *line) {
  const char *at = strstr(line, ": runtime error: ");
  if (!at) return false;
  for (int i = 0; i < 2; i++) {
    const char *end = at;
    while (at > line && at[-1] >= '0' && at[-1] <= '9')
      at--;
    if (at == end || at == line || *--at != ':') return false;
  }
  return at > line;
}

/* Where a sanitizer's library is there, what has no line of a file counts, too. */
static bool begins_report(const kc_report *report) {
  const char *line = report->line;
  static const char *const begins[] = {
      "ERROR: AddressSanitizer",  "WARNING: ThreadSanitizer",
      "ERROR: ThreadSanitizer",   "ERROR: LeakSanitizer",
      "WARNING: MemorySanitizer", "ERROR: HWAddressSanitizer",
  };
  for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
    if (begins_with(line, begins[i])) return true;
  return report->nonce ? strstr(line, "runtime error: ") != NULL
                       : is_undefined(line);
}

/* Behind it come the shadow memory and its legend. */
static bool ends_report(const char *line) {
  return !strncmp(line, "SUMMARY: ", 9) || !strncmp(line, "Shadow bytes", 12);
}

static void take_line(kc_report *report) {
  report->line[report->line_size] = 0;
  report->line_size = 0;
  if (report->whole) return;
  if (!report->begun && !begins_report(report)) return;
  report->begun = true;
  report->whole = ends_report(report->line);
  size_t used = strlen(report->text);
  snprintf(report->text + used, sizeof report->text - used, "%s\n",
           report->line);
}

/* Which case runs now, behind the nonce; what was reported keeps its own. */
static void take_mark(kc_report *report) {
  size_t size = strlen(report->nonce);
  report->line[report->line_size] = 0;
  bool ours =
      !strncmp(report->line, report->nonce, size) && report->line[size] == ' ';
  if (!ours) report->strange += report->line_size + 2;
  report->line_size = 0;
  report->in_mark = false;
  if (ours && !report->begun)
    snprintf(report->at, sizeof report->at, "%.*s", (int)sizeof report->at - 1,
             report->line + size + 1);
}

size_t kc_report_read(kc_report *report, char *text, size_t size) {
  size_t left = 0;
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    if (c == KC_MARK && report->nonce) { /* the line before may have no end */
      if (report->line_size && !report->in_mark) take_line(report);
      report->in_mark = true;
      continue;
    }
    if (!report->in_mark) text[left++] = c;
    bool full = report->line_size + 1 >= sizeof report->line;
    if (c != '\n' && !full) report->line[report->line_size++] = c ? c : ' ';
    if (c != '\n' && !(full && report->in_mark)) continue;
    if (report->in_mark)
      take_mark(report);
    else
      take_line(report);
  }
  return left;
}

static bool is_own(const char *frame) {
  return strstr(frame, "/libsanitizer/") || strstr(frame, "libasan.so") ||
         strstr(frame, "libtsan.so") || strstr(frame, "libubsan.so") ||
         strstr(frame, "libclang_rt");
}

/* The first function of a stack that is not the sanitizer's own; "" where there is none. */
static void find_frame(const char *text, char *out, size_t capacity) {
  out[0] = 0;
  while ((text = strstr(text, "\n    #"))) {
    const char *line = text + 1, *in = strstr(line, " in ");
    size_t size = strcspn(line, "\n");
    text = line;
    if (!in || in > line + size)
      in = strchr(line + 5, ' '); /* TSan has no " in " */
    else
      in += 3;
    if (!in || in > line + size) continue;
    snprintf(out, capacity, "%.*s", (int)(line + size - in - 1), in + 1);
    if (!is_own(out)) return;
    out[0] = 0;
  }
}

bool kc_report_says(const kc_report *report, char **out_text) {
  char frame[300];
  if (!report->begun) return false;
  size_t size = strcspn(report->text, "\n");
  const char *from = report->text, *name = strstr(from, "Sanitizer: ");
  while (name && name > from && name < from + size && name[-1] != ' ')
    name--; /* without "==4711==ERROR: " */
  if (!name || name > from + size) name = from;
  const char *registers = strstr(name, " at pc ");
  if (registers && registers < from + size) size = (size_t)(registers - from);
  find_frame(report->text, frame, sizeof frame);
  kc_text_more(out_text, "%.*s%s%s", (int)(from + size - name), name,
               frame[0] ? ": " : "", frame);
  return true;
}
