/* html.h - results as one HTML file that needs nothing else. */
#ifndef KC_HTML_H
#define KC_HTML_H

#include "runner/results.h"

/* Writes text as it stands in XML and HTML, with U+FFFD for each byte that is no character;
 * NULL: nothing. */
void kc_xml_text(FILE *file, const char *text);

/* False where it could not be written. */
bool kc_html(const kc_results *results, FILE *file);

#endif /* KC_HTML_H */
