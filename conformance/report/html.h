/* html.h - results as one HTML file that needs nothing else. */
#ifndef KC_HTML_H
#define KC_HTML_H

#include "runner/results.h"

bool kc_html(const kc_results *results, FILE *file);

#endif /* KC_HTML_H */
