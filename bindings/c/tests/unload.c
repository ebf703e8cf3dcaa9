/*
 * Loads the library that the argument names, and unloads it: it stays, for its threads. Ends with 0 and prints "ok".
 */

#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments) {
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (library == NULL || dlclose(library) != 0) {
        fprintf(stderr, "cannot be loaded: %s\n", dlerror());
        return 1;
    }
    if (dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) == NULL) {
        fprintf(stderr, "was unloaded\n");
        return 1;
    }
    printf("ok\n");
    return 0;
}
