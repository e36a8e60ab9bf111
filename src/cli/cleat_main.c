/*
 * cleat: the daemon.
 *
 * The rooms of a server are being built from the ground up; until they stand, the program tells
 * its version and refuses to start rather than pretend.
 */
#include <stdio.h>
#include <string.h>

#define ETCD_VERSION "3.7.1"

static int print_version(void)
{
    printf("etcd Version: %s\ncleat\n", ETCD_VERSION);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-version") == 0))
        return print_version();
    fprintf(stderr, "cleat: this version cannot serve yet: docs/compat.md lists what works\n");
    return 1;
}
