/* render.c - results as JUnit, TAP, Markdown, a badge; html.c has the page. */
#include <string.h>

#include "report/claim.h"
#include "report/html.h"
#include "report/report.h"
#include "system/printable.h"

const char kc_formats[] = "html junit tap md badge text";

void kc_xml_text(FILE *file, const char *text) {
  for (size_t size = 0; text && *text; text += size ? size : 1) {
    unsigned char c = (unsigned char)*text;
    size = keel_utf8_size(text);
    if (!size)
      fputs("\xef\xbf\xbd", file);
    else if (c == '&')
      fputs("&amp;", file);
    else if (c == '<')
      fputs("&lt;", file);
    else if (c == '>')
      fputs("&gt;", file);
    else if (c == '"')
      fputs("&quot;", file);
    else if (c >= ' ' || c == '\n')
      fwrite(text, 1, size, file);
  }
}

static bool in_area(const kc_rule_result *rule, const char *area) {
  size_t size = strlen(area);
  return !strncmp(rule->id, area, size) && rule->id[size] == '.';
}

/* ---- JUnit: a testsuite an area, a testcase a rule --------------------------------- */

static void junit_case(FILE *file, const kc_rule_result *rule) {
  fprintf(file, "    <testcase classname=\"%s\" name=\"%s\" time=\"%.3f\"",
          kc_level_name(rule->level), rule->id, (double)rule->time / 1e9);
  bool failed = kc_status_failed(rule->status);
  bool skipped = kc_status_skipped(rule->status) || rule->status == KC_XFAIL;
  if (!failed && !skipped) {
    fputs("/>\n", file);
    return;
  }
  fputs(">\n", file);
  if (skipped) {
    fputs("      <skipped message=\"", file);
    kc_xml_text(file, rule->reason && *rule->reason
                          ? rule->reason
                          : kc_status_name(rule->status));
    fputs("\"/>\n", file);
  } else {
    bool error = rule->status != KC_FAIL && rule->status != KC_XPASS;
    fprintf(file, "      <%s type=\"%s\">", error ? "error" : "failure",
            kc_status_name(rule->status));
    kc_xml_text(file, rule->reason);
    for (uint32_t i = 0; i < rule->case_count; i++) {
      if (!kc_status_failed(rule->cases[i].status)) continue;
      fputc('\n', file);
      kc_xml_text(file, rule->cases[i].name);
      fputs(": ", file);
      kc_xml_text(file, rule->cases[i].message);
      fputc('\n', file);
      kc_xml_text(file, rule->cases[i].detail);
    }
    fprintf(file, "</%s>\n", error ? "error" : "failure");
  }
  fputs("    </testcase>\n", file);
}

static bool junit(const kc_results *r, FILE *file) {
  fprintf(file,
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<testsuites name=\"keel-conformance\" tests=\"%u\" failures=\"%u\""
          " skipped=\"%u\" time=\"%.3f\">\n",
          r->rule_count, r->failed, r->skipped, (double)r->time / 1e9);
  for (uint32_t a = 0; a < kc_area_count; a++) {
    uint32_t tests = 0, failures = 0, errors = 0, skipped = 0;
    for (uint32_t i = 0; i < r->rule_count; i++) {
      const kc_rule_result *rule = &r->rules[i];
      if (!in_area(rule, kc_areas[a]->name)) continue;
      tests++;
      bool failed = rule->status == KC_FAIL || rule->status == KC_XPASS;
      failures += failed;
      errors += kc_status_failed(rule->status) && !failed;
      skipped += kc_status_skipped(rule->status) || rule->status == KC_XFAIL;
    }
    if (!tests) continue;
    fprintf(file,
            "  <testsuite name=\"%s\" tests=\"%u\" failures=\"%u\""
            " errors=\"%u\" skipped=\"%u\">\n    <properties>\n",
            kc_areas[a]->name, tests, failures, errors, skipped);
    fputs("      <property name=\"plugin\" value=\"", file);
    kc_xml_text(file, r->name);
    fputc(' ', file);
    kc_xml_text(file, r->version);
    fprintf(file,
            "\"/>\n      <property name=\"seed\" value=\"%llu\"/>\n"
            "    </properties>\n",
            (unsigned long long)r->seed);
    for (uint32_t i = 0; i < r->rule_count; i++)
      if (in_area(&r->rules[i], kc_areas[a]->name))
        junit_case(file, &r->rules[i]);
    fputs("  </testsuite>\n", file);
  }
  fputs("</testsuites>\n", file);
  return true;
}

/* ---- TAP 14 ----------------------------------------------------------------------------- */

static void yaml(FILE *file, const char *name, const char *text) {
  fprintf(file, "  %s: |\n", name);
  while (text && *text) {
    size_t size = strcspn(text, "\n");
    fprintf(file, "    %.*s\n", (int)size, text);
    text += size + (text[size] == '\n');
  }
}

static bool tap(const kc_results *r, FILE *file) {
  fprintf(file, "TAP version 14\n1..%u\n", r->rule_count);
  for (uint32_t i = 0; i < r->rule_count; i++) {
    const kc_rule_result *rule = &r->rules[i];
    bool failed = kc_status_failed(rule->status);
    bool expected = rule->status == KC_XFAIL; /* "ok # TODO": it passes now */
    fprintf(file, "%s %u - %s", failed || expected ? "not ok" : "ok", i + 1,
            rule->id);
    if (kc_status_skipped(rule->status)) {
      const char *reason = rule->reason ? rule->reason : "";
      size_t size = strcspn(reason, "\n"); /* a test is a line */
      fprintf(file, " # SKIP %.*s", size < 200 ? (int)size : 200, reason);
    }
    if (expected) fputs(" # TODO an expected failure", file);
    fputc('\n', file);
    if (!failed) continue;
    fputs("  ---\n", file);
    fprintf(file, "  severity: %s\n", kc_severity_name(rule->severity));
    for (uint32_t c = 0; c < rule->case_count; c++)
      if (kc_status_failed(rule->cases[c].status)) {
        yaml(file, "case", rule->cases[c].name);
        yaml(file, "message", rule->cases[c].message);
        break;
      }
    fputs("  ...\n", file);
  }
  return true;
}

/* ---- Markdown, badge ------------------------------------------------------------------------ */

static bool markdown(const kc_results *r, FILE *file) {
  char text[200], why[600];
  kc_claim_kind kind = kc_claim_verdict(r, text, sizeof text);
  fprintf(file, "### Keel conformance: %s %s: %s\n\n", r->name, r->version,
          text);
  fprintf(file,
          "%u passed, %u failed, %u skipped, %u warnings, %.1f s, seed"
          " %llu\n\n",
          r->passed + r->warnings, r->failed, r->skipped, r->warnings,
          (double)r->time / 1e9, (unsigned long long)r->seed);
  for (int i = 0; i < KC_LEVEL_COUNT && kind <= KC_CLAIM_NONE; i++)
    if (kc_claim_gap(r, (kc_level)i, why, sizeof why))
      fprintf(file, "Not proven: %s, %s.\n\n", kc_level_name((kc_level)i), why);
  if (!r->failed && !r->warnings) return true;
  fputs("| rule | status | case | seen |\n| --- | --- | --- | --- |\n", file);
  for (uint32_t i = 0; i < r->rule_count; i++) {
    const kc_rule_result *rule = &r->rules[i];
    if (!kc_status_failed(rule->status) && rule->status != KC_WARNING) continue;
    for (uint32_t c = 0; c < rule->case_count; c++) {
      const kc_case_result *one = &rule->cases[c];
      if (!kc_status_failed(one->status)) continue;
      fprintf(file, "| `%s` | %s | `%s` | ", rule->id,
              kc_status_name(rule->status), one->name);
      for (const char *m = one->message; m && *m; m++)
        fputc(*m == '\n' || *m == '|' ? ' ' : *m, file);
      fputs(" |\n", file);
      break;
    }
  }
  return true;
}

static bool badge(const kc_results *r, FILE *file) {
  char text[200];
  static const char *const colours[] = {
      [KC_CLAIM_OK] = "#2b7a3d",   [KC_CLAIM_NONE] = "#9a7400",
      [KC_CLAIM_PART] = "#9a7400", [KC_CLAIM_BAD] = "#c4302b",
      [KC_CLAIM_CUT] = "#6b7480",  [KC_CLAIM_CHANGED] = "#6b7480"};
  const char *colour = colours[kc_claim_verdict(r, text, sizeof text)];
  int left = 40, right = (int)strlen(text) * 7 + 12;
  fprintf(
      file,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"20\""
      " role=\"img\" aria-label=\"keel: %s\">\n"
      "<rect width=\"%d\" height=\"20\" fill=\"#444\"/>\n"
      "<rect x=\"%d\" width=\"%d\" height=\"20\" fill=\"%s\"/>\n"
      "<g fill=\"#fff\" font-family=\"Verdana,sans-serif\" font-size=\"11\">"
      "<text x=\"7\" y=\"14\">keel</text><text x=\"%d\" y=\"14\">%s</text>"
      "</g>\n</svg>\n",
      left + right, text, left, left, right, colour, left + 6, text);
  return true;
}

static bool plain(const kc_results *r, FILE *file) {
  char text[200];
  for (uint32_t i = 0; i < r->rule_count; i++)
    fprintf(file, "%-8s %s\n", kc_status_name(r->rules[i].status),
            r->rules[i].id);
  kc_claim_kind kind = kc_claim_verdict(r, text, sizeof text);
  fprintf(file, "%s%s\n", kind <= KC_CLAIM_NONE ? "conformant: " : "", text);
  fprintf(file, "%u passed, %u failed, %u skipped\n", r->passed + r->warnings,
          r->failed, r->skipped);
  return true;
}

static const struct {
  const char *name;
  bool (*render)(const kc_results *r, FILE *file);
} formats[] = {{"html", kc_html}, {"junit", junit}, {"tap", tap},
               {"md", markdown},  {"badge", badge}, {"text", plain}};

bool kc_is_format(const char *name) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (!strcmp(name, formats[i].name)) return true;
  return false;
}

bool kc_render(const kc_results *r, const char *format, FILE *file) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (!strcmp(format, formats[i].name)) return formats[i].render(r, file);
  return false;
}
