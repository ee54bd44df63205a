/* report.h - results as a terminal, a browser or another tool shows them. */
#ifndef KC_REPORT_H
#define KC_REPORT_H

#include "runner/results.h"

/* Renders results in a format ("html", "junit" ...) to a file. */
bool kc_render(const kc_results *results, const char *format, FILE *file);
extern const char kc_formats[]; /* with spaces between */
bool kc_is_format(const char *name);

/* What the terminal shows behind a run. */
void kc_print_failures(const kc_results *results, bool verbose);
void kc_print_summary(const kc_results *results);

/* Cases of an op and an element type (NULL: of any): that ran, that failed, and that the
 * plugin has no kernel for. */
typedef struct kc_cell {
  uint32_t cases, failed, absent;
} kc_cell;
kc_cell kc_coverage_cell(const kc_results *results, const char *op,
                         const char *dtype);
/* Op and type of a case's name: "...op=Add,dtype=f32,..." */
bool kc_coverage_op(const char *name, char *op, char *dtype, size_t capacity);

#endif /* KC_REPORT_H */
