/* html.c - the page: summary, filter, areas, op by type, each failure's story. */
#include "report/html.h"

#include <ctype.h>
#include <kd/kd.h>
#include <string.h>

#include "reference/reference.h"
#include "report/claim.h"
#include "report/report.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
    "<style>\n"
    ":root{--bg:#fff;--fg:#1c2026;--soft:#5b6573;--line:#dfe3e8;--card:#f6f7f9;"
    "--ok:#1f7a3a;--bad:#b3261e;--warn:#8a6100;--skip:#6b7480}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e4e7eb;--soft:"
    "#9aa4b1;--line:#2c333c;--card:#1c2127;--ok:#59c27a;--bad:#ff8178;--warn:"
    "#e0b34a;--skip:#8b95a1}}\n"
    "body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 "
    "system-ui,"
    "sans-serif}main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}\n"
    "h1{font-size:24px;margin:0 0 2px}h2{font-size:17px;margin:34px 0 10px}"
    ".soft{color:var(--soft)}\n"
    ".cards{display:flex;flex-wrap:wrap;gap:10px;margin:18px "
    "0}.card{background:"
    "var(--card);border:1px solid var(--line);border-radius:8px;padding:10px "
    "16px;"
    "min-width:104px}.card b{display:block;font-size:24px;line-height:1.2}\n"
    ".ok{color:var(--ok)}.bad{color:var(--bad)}.warn{color:var(--warn)}.skip{"
    "color:"
    "var(--skip)}\n"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:"
    "4px 8px;"
    "border-bottom:1px solid "
    "var(--line);vertical-align:top}th{font-weight:600;color:"
    "var(--soft);font-size:13px}\n"
    ".n{text-align:right;font-variant-numeric:tabular-nums}code,pre{font:"
    "13px/1.45 "
    "ui-monospace,Menlo,monospace}pre{background:var(--card);border:1px solid "
    "var(--line);border-radius:6px;padding:8px 10px;overflow:auto;margin:6px 0;"
    "white-space:pre-wrap;overflow-wrap:anywhere}\n"
    ".bar{height:8px;border-radius:4px;background:var(--line);overflow:hidden;"
    "display:"
    "flex;min-width:120px;margin-top:7px}.bar i{display:block;height:100%}\n"
    ".story{border:1px solid var(--line);border-left:4px solid "
    "var(--bad);border-radius:"
    "6px;padding:10px 14px;margin:10px "
    "0}.story.w{border-left-color:var(--warn)}\n"
    "a,summary{color:inherit}summary{cursor:pointer}blockquote{margin:4px "
    "0;padding-left:10px;border-left:3px solid "
    "var(--line);color:"
    "var(--soft)}\n"
    ".heat td{padding:2px;border:0}.heat "
    ".c{width:44px;height:22px;border-radius:4px;"
    "text-align:center;font-size:12px;line-height:22px;background:var(--card)}"
    ".heat .z{color:var(--skip)}"
    ".heat .y{background:#2e8b4b;color:#fff}.heat "
    ".x{background:#c4302b;color:#fff}\n"
    "input,select{font:inherit;padding:5px 9px;border:1px solid "
    "var(--line);border-"
    "radius:6px;background:var(--bg);color:var(--fg)}.scroll{overflow-x:auto}\n"
    "</style>\n";

static const char script[] =
    "<script>\n"
    "const q=document.getElementById('q'),s=document.getElementById('s'),"
    "rows=[...document.querySelectorAll('#rules tr[data-id]')],"
    "n=document.getElementById('n');\n"
    "function f(){let c=0;for(const r of rows){const ok=(r.dataset.id+' '+"
    "r.dataset.text).toLowerCase().includes(q.value.toLowerCase())&&(!s.value||"
    "r.dataset.s===s.value);r.hidden=!ok;c+=ok}n.textContent=c+' of "
    "'+rows.length}\n"
    "q.oninput=s.onchange=f;f();\n"
    "</script>\n";

static const char *colour(kc_status status) {
  if (kc_status_failed(status)) return "bad";
  return status == KC_PASS ? "ok" : status == KC_WARNING ? "warn" : "skip";
}

static void card(FILE *file, const char *style, uint32_t value,
                 const char *what) {
  fprintf(file, "<div class=\"card\"><b class=\"%s\">%u</b>%s</div>\n", style,
          value, what);
}

/* What may be claimed, and what of the plugin's claims is not proven. */
static void verdict(const kc_results *r, FILE *file) {
  static const char *const styles[] = {
      [KC_CLAIM_OK] = "ok",     [KC_CLAIM_NONE] = "warn",
      [KC_CLAIM_PART] = "warn", [KC_CLAIM_BAD] = "bad",
      [KC_CLAIM_CUT] = "skip",  [KC_CLAIM_CHANGED] = "skip"};
  char text[200], why[600];
  kc_claim_kind kind = kc_claim_verdict(r, text, sizeof text);
  if (kind != KC_CLAIM_OK) text[0] = (char)toupper((unsigned char)text[0]);
  fprintf(file, "<p><b class=\"%s\">%s%s</b></p>\n", styles[kind],
          kind == KC_CLAIM_OK ? "Conformant: " : "", text);
  for (int i = 0; i < KC_LEVEL_COUNT && kind <= KC_CLAIM_NONE; i++) {
    if (!kc_claim_gap(r, (kc_level)i, why, sizeof why)) continue;
    fprintf(file, "<div class=\"soft\">Not proven: %s, %s</div>\n",
            kc_level_name((kc_level)i), why);
  }
}

static void summary(const kc_results *r, FILE *file) {
  fputs("<title>", file);
  kc_xml_text(file, r->name);
  fputs(": Keel conformance</title></head><body><main>\n<h1>", file);
  kc_xml_text(file, r->vendor);
  fputc(' ', file);
  kc_xml_text(file, r->name);
  fputc(' ', file);
  kc_xml_text(file, r->version);
  fputs("</h1>\n<div class=\"soft\">", file);
  kc_xml_text(file, r->device);
  fprintf(file, " &middot; ABI %u.%u &middot; ", r->abi_version >> 16,
          r->abi_version & 0xffff);
  kc_xml_text(file, r->suite);
  fputs(" &middot; ", file);
  kc_xml_text(file, r->started);
  fputs(" &middot; ", file);
  kc_xml_text(file, r->host);
  fprintf(file, " &middot; seed %llu</div>\n", (unsigned long long)r->seed);
  verdict(r, file);
  fputs("<div class=\"cards\">\n", file);
  card(file, "ok", r->passed, "passed");
  card(file, r->failed ? "bad" : "soft", r->failed, "failed");
  card(file, r->warnings ? "warn" : "soft", r->warnings, "warnings");
  card(file, "skip", r->skipped, "skipped");
  uint64_t checks = 0;
  for (uint32_t i = 0; i < r->rule_count; i++)
    checks += r->rules[i].checks;
  fprintf(file,
          "<div class=\"card\"><b>%llu</b>checks</div>\n"
          "<div class=\"card\"><b>%.1f s</b>time</div></div>\n",
          (unsigned long long)checks, (double)r->time / 1e9);
}

static void stories(const kc_results *r, FILE *file) {
  bool any = false;
  for (uint32_t i = 0; i < r->rule_count; i++) {
    const kc_rule_result *rule = &r->rules[i];
    if (!kc_status_failed(rule->status) && rule->status != KC_WARNING) continue;
    if (!any) fputs("<h2>What broke</h2>\n", file);
    any = true;
    fprintf(file,
            "<div class=\"story%s\" id=\"%s\"><b>%s</b> <span "
            "class=\"%s\">%s</span>"
            " <span class=\"soft\">%s, %u of %u cases</span>\n",
            rule->status == KC_WARNING ? " w" : "", rule->id, rule->id,
            colour(rule->status), kc_status_name(rule->status),
            kc_severity_name(rule->severity), rule->failed, rule->case_count);
    if (rule->rule) {
      fprintf(file, "<blockquote>kd/%s: &ldquo;", rule->rule->header);
      kc_xml_text(file, rule->rule->sentence);
      fputs("&rdquo;</blockquote><div>", file);
      kc_xml_text(file, rule->rule->about);
      fputs("</div>\n", file);
    }
    uint32_t shown = 0;
    for (uint32_t c = 0; c < rule->case_count; c++) {
      const kc_case_result *one = &rule->cases[c];
      if (!kc_status_failed(one->status)) continue;
      if (++shown > 50) break;
      if (shown == 2)
        fputs("<details><summary>the other cases</summary>", file);
      fputs("<pre>", file);
      kc_xml_text(file, one->name);
      fputs("\n", file);
      kc_xml_text(file, one->message);
      if (one->detail) fputs("\n\n", file);
      kc_xml_text(file, one->detail);
      fputs("</pre>\n", file);
      if (shown == 1) {
        const char *during = strstr(one->name, "/during=");
        fputs("<div class=\"soft\">Again: <code>keel-conformance ", file);
        kc_xml_text(file, r->plugin_path);
        bool no_case = kc_is_no_case(rule, one->name);
        fputs(no_case ? " --rule '" : " --case '", file);
        kc_xml_text(file, during ? during + 8 : no_case ? rule->id : one->name);
        fprintf(file, "' --seed %llu</code></div>\n",
                (unsigned long long)r->seed);
      }
    }
    if (shown > 50)
      fprintf(file, "<div class=\"soft\">and %u more</div>\n",
              rule->failed - 50);
    if (shown > 1) fputs("</details>\n", file);
    fputs("</div>\n", file);
  }
}

static void areas(const kc_results *r, FILE *file) {
  fputs(
      "<h2>Areas</h2>\n<table><tr><th>area<th><th class=n>passed<th "
      "class=n>failed"
      "<th class=n>warnings<th class=n>skipped</tr>\n",
      file);
  for (uint32_t a = 0; a < kc_area_count; a++) {
    uint32_t n[4] = {0}, all = 0;
    size_t size = strlen(kc_areas[a]->name);
    for (uint32_t i = 0; i < r->rule_count; i++) {
      const kc_rule_result *rule = &r->rules[i];
      if (strncmp(rule->id, kc_areas[a]->name, size) != 0 ||
          rule->id[size] != '.')
        continue;
      all++;
      n[kc_status_failed(rule->status) ? 1
        : rule->status == KC_PASS      ? 0
        : rule->status == KC_WARNING   ? 2
                                       : 3]++;
    }
    if (!all) continue;
    static const char *const colours[] = {"ok", "bad", "warn", "skip"};
    fprintf(file,
            "<tr><td><b>%s</b> <span class=\"soft\">%s</span><td><div"
            " class=\"bar\">",
            kc_areas[a]->name, kc_areas[a]->title);
    for (int k = 0; k < 4; k++)
      fprintf(file, "<i style=\"width:%.1f%%;background:var(--%s)\"></i>",
              100.0 * n[k] / all, colours[k]);
    fprintf(file,
            "</div><td class=\"n\">%u<td class=\"n\">%u<td class=\"n\">%u"
            "<td class=\"n\">%u</tr>\n",
            n[0], n[1], n[2], n[3]);
  }
  fputs("</table>\n", file);
}

static const kd_dtype heat_types[] = {
    KD_F32, KD_F64, KD_F16, KD_BF16, KD_I8,   KD_U8,  KD_I16, KD_U16,
    KD_I32, KD_U32, KD_I64, KD_U64,  KD_BOOL, KD_C64, KD_C128};

static void heat_row(const kc_results *r, const char *op, FILE *file) {
  fprintf(file, "<tr><td>%s", op);
  for (size_t t = 0; t < sizeof heat_types / sizeof *heat_types; t++) {
    const char *dtype = kd_dtype_name(heat_types[t]);
    kc_cell cell = kc_coverage_cell(r, op, dtype);
    if (cell.cases)
      fprintf(file,
              "<td><div class=\"c %s\" title=\"%s %s: %u cases%s\">%u</div>",
              cell.failed ? "x" : "y", op, dtype, cell.cases,
              cell.failed ? ", not all passed" : "", cell.cases);
    else if (cell.absent)
      fprintf(file,
              "<td><div class=\"c z\" title=\"%s %s: the plugin has no such"
              " kernel\">&ndash;</div>",
              op, dtype);
    else
      fputs("<td><div class=\"c\"></div>", file);
  }
  fputs("</tr>\n", file);
}

/* The ops that no case ran of: not there, unless only a part of the rules ran. */
static void absent_ops(const kc_results *r, FILE *file) {
  const ref_op *ref = NULL;
  uint32_t count = 0;
  for (uint32_t i = 0; (ref = ref_at(i)); i++)
    count += !kc_coverage_cell(r, ref->name, NULL).cases;
  if (!count) return;
  fprintf(file, "<details><summary class=\"soft\">%u ops %s</summary><p>",
          count,
          r->partial ? "without a case in this run"
                     : "that the plugin does not have");
  for (uint32_t i = 0; (ref = ref_at(i)); i++)
    if (!kc_coverage_cell(r, ref->name, NULL).cases)
      fprintf(file, "<code>%s</code> ", ref->name);
  fputs("</p></details>\n", file);
}

static void heat(const kc_results *r, FILE *file) {
  const ref_op *ref = NULL;
  fputs(
      "<h2>Ops by element type</h2>\n<p class=\"soft\">Cases that were run;"
      " green: all passed, red: some failed, &ndash;: the plugin has no such"
      " kernel, empty: no case was run.</p>\n<div class=\"scroll\"><table"
      " class=\"heat\"><tr><th>op",
      file);
  for (size_t t = 0; t < sizeof heat_types / sizeof *heat_types; t++)
    fprintf(file, "<th>%s", kd_dtype_name(heat_types[t]));
  fputs("</tr>\n", file);
  for (uint32_t i = 0; (ref = ref_at(i)); i++)
    if (kc_coverage_cell(r, ref->name, NULL).cases)
      heat_row(r, ref->name, file);
  fputs("</table></div>\n", file);
  absent_ops(r, file);
}

static void rules(const kc_results *r, FILE *file) {
  fputs(
      "<h2>Rules</h2>\n<p><input id=\"q\" placeholder=\"filter by id or text\""
      " size=\"30\"> <select id=\"s\"><option "
      "value=\"\">all<option>pass<option>"
      "fail<option>crash<option>hang<option>warning<option>skipped<option>"
      "untested</select>"
      " <span class=\"soft\" id=\"n\"></span></p>\n<table id=\"rules\"><tr><th>"
      "rule<th>status<th>severity<th>level<th class=n>cases<th class=n>checks"
      "<th class=n>ms<th>"
      "</tr>\n",
      file);
  for (uint32_t i = 0; i < r->rule_count; i++) {
    const kc_rule_result *rule = &r->rules[i];
    bool broke = kc_status_failed(rule->status) || rule->status == KC_WARNING;
    fprintf(file, "<tr data-id=\"%s\" data-s=\"%s\" data-text=\"", rule->id,
            kc_status_name(rule->status));
    kc_xml_text(file, rule->rule ? rule->rule->sentence : "");
    fprintf(file,
            "\"><td><code>%s%s%s%s%s</code><td class=\"%s\">%s<td>%s<td>%s"
            "<td class=\"n\">%u<td class=\"n\">%llu<td class=\"n\">%.0f<td"
            " class=\"soft\">",
            broke ? "<a href=\"#" : "", broke ? rule->id : "",
            broke ? "\">" : "", rule->id, broke ? "</a>" : "",
            colour(rule->status), kc_status_name(rule->status),
            kc_severity_name(rule->severity), kc_level_name(rule->level),
            rule->case_count, (unsigned long long)rule->checks,
            (double)rule->time / 1e6);
    kc_xml_text(file, rule->reason);
    for (uint32_t c = 0; c < rule->case_count && c < 1; c++)
      kc_xml_text(file, rule->cases[c].note);
    fputs("</tr>\n", file);
  }
  fputs("</table>\n", file);
}

bool kc_html(const kc_results *r, FILE *file) {
  fputs(head, file);
  summary(r, file);
  stories(r, file);
  areas(r, file);
  heat(r, file);
  rules(r, file);
  fprintf(file, "<p class=\"soft\">plugin sha256 %s<br>rules sha256 %s</p>\n",
          r->plugin_digest ? r->plugin_digest : "?",
          r->rules_digest ? r->rules_digest : "?");
  fputs(script, file);
  fputs("</main></body></html>\n", file);
  return true;
}
