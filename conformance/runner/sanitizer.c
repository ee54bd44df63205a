/* sanitizer.c - what a sanitizer says in a child's output: a plugin may be built with one, and
 * its report is then what went wrong. */
#include <stdlib.h>
#include <string.h>

#include "runner/run.h"
/**/
#include "suite/channel.h"

static bool begins_report(const char *line) {
  static const char *const begins[] = {
      "ERROR: AddressSanitizer",  "WARNING: ThreadSanitizer",
      "ERROR: ThreadSanitizer",   "ERROR: LeakSanitizer",
      "WARNING: MemorySanitizer", "ERROR: HWAddressSanitizer",
      "runtime error: ", /* UndefinedBehaviorSanitizer */
  };
  for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
    if (strstr(line, begins[i])) return true;
  return false;
}

/* Behind it come the shadow memory and its legend. */
static bool ends_report(const char *line) {
  return !strncmp(line, "SUMMARY: ", 9) || !strncmp(line, "Shadow bytes", 12);
}

static void take_line(kc_report *report) {
  report->line[report->line_size] = 0;
  report->line_size = 0;
  if (report->whole) return;
  if (!report->begun && !begins_report(report->line)) return;
  report->begun = true;
  report->whole = ends_report(report->line);
  size_t used = strlen(report->text);
  snprintf(report->text + used, sizeof report->text - used, "%s\n",
           report->line);
}

/* Which case runs now; what was reported keeps its own. */
static void take_mark(kc_report *report) {
  report->line[report->line_size] = 0;
  report->line_size = 0;
  if (!report->begun)
    snprintf(report->at, sizeof report->at, "%.*s", (int)sizeof report->at - 1,
             report->line);
}

size_t kc_report_read(kc_report *report, char *text, size_t size) {
  size_t left = 0;
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    if (c == KC_MARK) { /* the line before it may have no end */
      if (report->line_size) take_line(report);
      report->in_mark = true;
      continue;
    }
    if (!report->in_mark) text[left++] = c;
    if (c != '\n') {
      if (report->line_size + 1 < sizeof report->line)
        report->line[report->line_size++] = c ? c : ' ';
      continue;
    }
    if (report->in_mark)
      take_mark(report);
    else
      take_line(report);
    report->in_mark = false;
  }
  return left;
}

static bool is_own(const char *frame) {
  return strstr(frame, "/libsanitizer/") || strstr(frame, "libasan.so") ||
         strstr(frame, "libtsan.so") || strstr(frame, "libubsan.so") ||
         strstr(frame, "libclang_rt");
}

/* The first function of a stack that is not the sanitizer's own; "" where there is none. */
static void find_frame(const char *text, char *out, size_t room) {
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
    snprintf(out, room, "%.*s", (int)(line + size - in - 1), in + 1);
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
