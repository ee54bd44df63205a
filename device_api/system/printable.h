/* printable.h - texts of devices, files and models, which may be of any bytes, where they are
 * shown: on a terminal, in JSON. By all of host, tools and suite, here alone. */
#ifndef KEEL_PRINTABLE_H
#define KEEL_PRINTABLE_H

#include <stddef.h>
#include <stdio.h>

/* The bytes of the character that begins a text, in UTF-8; 1 at the text's end, 0 where no
 * character begins. Reads nothing behind the end. */
size_t keel_utf8_size(const char *text);

/* Puts '?' for each byte that a terminal may take for more than text: of control characters,
 * of those that turn the direction or the line, and of what is not UTF-8. ASCII characters in
 * `kept` stay as they are. The size is the same. Returns the text. */
char *keel_make_printable(char *text, const char *kept);

/* Writes a string of JSON, with its quotes: whatever keel_make_printable would take away is
 * escaped, and a byte that is not UTF-8 is U+FFFD. NULL is the empty string. */
void keel_write_json(FILE *file, const char *text);

#endif /* KEEL_PRINTABLE_H */
