/* program.c - a program where a plugin is expected. */
int main(void) {
  return 0;
}
