/* printable.h - makes texts of devices, files and models, which may have any bytes, fit for a
 * terminal and for JSON. Host, tools and suite print such texts by these functions. */
#ifndef KEEL_PRINTABLE_H
#define KEEL_PRINTABLE_H

#include <stddef.h>
#include <stdio.h>

/* The bytes of the character that begins a text, in UTF-8; 1 at the text's end, 0 where no
 * character begins. Reads nothing behind the end. */
size_t keel_utf8_size(const char *text);

/* Replaces each byte that a terminal may take for a command by '?': control characters,
 * characters that change the direction of writing or end a line, and bytes that are not
 * UTF-8. ASCII characters in `kept` stay. The size stays the same. Returns the text. */
char *keel_make_printable(char *text, const char *kept);

/* Writes a string of JSON, with its quotes: a character that keel_make_printable would replace
 * is escaped, and a byte that is not UTF-8 becomes U+FFFD. NULL is the empty string. */
void keel_write_json(FILE *file, const char *text);

#endif /* KEEL_PRINTABLE_H */
