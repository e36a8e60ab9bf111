#include "io/fake_files.h"

#include "base/assert.h"
#include "base/mem.h"

/* Made: no from. Removed: no to. Renamed: both. */
struct change {
    struct list link;
    struct fake_node *from_dir, *to_dir;
    char *from, *to;
    struct fake_node *what;
};

struct fake_files {
    struct fake_node *root;
    struct list changes; /* since the last sync of their directory, oldest first */
};

/* The directory a path ends in, and the last name of the path. */
struct place {
    struct fake_node *dir;
    struct bytes name;
};

static char *copy_str(struct bytes text)
{
    char *copy = mem_new_array(text.len + 1, char);

    memcpy(copy, text.at, text.len);
    return copy;
}

static struct fake_node *node_new(bool is_dir, unsigned mode)
{
    struct fake_node *n = mem_new(struct fake_node);

    n->refs = 1;
    n->is_dir = is_dir;
    n->mode = mode;
    fake_content_init(&n->content);
    return n;
}

struct fake_node *fake_node_ref(struct fake_node *n)
{
    if (n)
        n->refs++;
    return n;
}

static void names_free(struct fake_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        mem_free(names->at[i].text);
        fake_node_unref(names->at[i].node);
    }
    mem_free(names->at);
    *names = (struct fake_names){0};
}

void fake_node_unref(struct fake_node *n)
{
    if (!n || --n->refs > 0)
        return;
    names_free(&n->names);
    names_free(&n->kept_names);
    fake_content_free(&n->content);
    mem_free(n);
}

/* Where the name is or would be. */
static size_t names_find(const struct fake_names *names, struct bytes name, bool *found)
{
    size_t i = 0;
    int order = 1;

    while (i < names->count && (order = bytes_compare(bytes_of_str(names->at[i].text), name)) < 0)
        i++;
    *found = i < names->count && order == 0;
    return i;
}

static struct fake_node *names_get(const struct fake_names *names, struct bytes name)
{
    bool found;
    size_t i = names_find(names, name, &found);

    return found ? names->at[i].node : NULL;
}

static void names_set(struct fake_names *names, struct bytes name, struct fake_node *node)
{
    bool found;
    size_t i = names_find(names, name, &found);

    fake_node_ref(node);
    if (found) {
        assert(names->at);
        fake_node_unref(names->at[i].node);
    } else {
        names->at = mem_resize(names->at, names->count + 1, sizeof(*names->at));
        memmove(names->at + i + 1, names->at + i, (names->count - i) * sizeof(*names->at));
        names->count++;
        names->at[i].text = copy_str(name);
    }
    names->at[i].node = node;
}

static void names_unset(struct fake_names *names, struct bytes name)
{
    bool found;
    size_t i = names_find(names, name, &found);

    if (!found)
        return;
    mem_free(names->at[i].text);
    fake_node_unref(names->at[i].node);
    names->count--;
    memmove(names->at + i, names->at + i + 1, (names->count - i) * sizeof(*names->at));
}

static void names_copy(struct fake_names *to, const struct fake_names *from)
{
    struct fake_names old = *to;

    *to = (struct fake_names){0};
    for (size_t i = 0; i < from->count; i++)
        names_set(to, bytes_of_str(from->at[i].text), from->at[i].node);
    names_free(&old); /* last, since both may hold the only reference to a node */
}

static void change_free(struct change *c)
{
    list_remove(&c->link);
    fake_node_unref(c->from_dir);
    fake_node_unref(c->to_dir);
    fake_node_unref(c->what);
    mem_free(c->from);
    mem_free(c->to);
    mem_free(c);
}

/* Makes a change that programs see at once. Either place may be missing: dir is NULL. */
static void change(struct fake_files *f, struct place from, struct place to, struct fake_node *what)
{
    struct change *c = mem_new(struct change);

    c->what = fake_node_ref(what);
    if (from.dir) {
        c->from_dir = fake_node_ref(from.dir);
        c->from = copy_str(from.name);
        names_unset(&from.dir->names, from.name);
    }
    if (to.dir) {
        c->to_dir = fake_node_ref(to.dir);
        c->to = copy_str(to.name);
        names_set(&to.dir->names, to.name, what);
    }
    list_init(&c->link);
    list_push_back(&f->changes, &c->link);
}

struct fake_files *fake_files_new(void)
{
    struct fake_files *f = mem_new(struct fake_files);

    f->root = node_new(true, 0755);
    list_init(&f->changes);
    return f;
}

void fake_files_free(struct fake_files *f)
{
    LIST_FOREACH (link, &f->changes)
        change_free(container_of(link, struct change, link));
    fake_node_unref(f->root);
    mem_free(f);
}

/* The next name of the path, or an empty one at its end. "." is passed over. */
static struct bytes next_name(const char **path)
{
    for (;;) {
        while (**path == '/')
            ++*path;
        size_t len = strcspn(*path, "/");
        struct bytes name = bytes_of(*path, len);
        *path += len;
        if (!bytes_equal(name, BYTES(".")))
            return name;
    }
}

/* The root itself has no place: ERR_EXISTS. */
static enum err find_place(struct fake_files *f, const char *path, struct place *out)
{
    *out = (struct place){.dir = f->root, .name = next_name(&path)};
    if (out->name.len == 0)
        return ERR_EXISTS;
    for (struct bytes next; (next = next_name(&path)).len > 0; out->name = next) {
        out->dir = names_get(&out->dir->names, out->name);
        if (!out->dir || !out->dir->is_dir)
            return ERR_NOT_FOUND;
    }
    return ERR_OK;
}

enum err fake_files_find(struct fake_files *f, const char *path, struct fake_node **out)
{
    struct place p;
    enum err e = find_place(f, path, &p);

    if (e == ERR_NOT_FOUND)
        return e;
    *out = e == ERR_EXISTS ? f->root : names_get(&p.dir->names, p.name);
    return *out ? ERR_OK : ERR_NOT_FOUND;
}

enum err fake_files_make(struct fake_files *f, const char *path, bool is_dir, unsigned mode,
                         struct fake_node **out)
{
    struct place p;
    enum err e = find_place(f, path, &p);

    if (e != ERR_OK)
        return e;
    if (names_get(&p.dir->names, p.name))
        return ERR_EXISTS;
    *out = node_new(is_dir, mode);
    change(f, (struct place){0}, p, *out);
    fake_node_unref(*out); /* the name holds it now */
    return ERR_OK;
}

/* Is this node the other one, or somewhere below it? */
static bool is_within(const struct fake_node *n, const struct fake_node *top)
{
    bool found = n == top;

    for (size_t i = 0; !found && i < top->names.count; i++)
        found = is_within(n, top->names.at[i].node);
    return found;
}

enum err fake_files_rename(struct fake_files *f, const char *from, const char *to)
{
    struct place a, b;
    enum err e = find_place(f, from, &a);

    if (e == ERR_OK)
        e = find_place(f, to, &b);
    if (e != ERR_OK)
        return e;
    struct fake_node *what = names_get(&a.dir->names, a.name);
    struct fake_node *there = names_get(&b.dir->names, b.name);
    if (!what)
        return ERR_NOT_FOUND;
    if (what == there)
        return ERR_OK;
    if (is_within(b.dir, what) || (there && there->is_dir && !what->is_dir))
        return ERR_IO;
    if (there && !there->is_dir && what->is_dir)
        return ERR_NOT_FOUND;
    if (there && there->names.count > 0)
        return ERR_EXISTS;
    change(f, a, b, what);
    return ERR_OK;
}

enum err fake_files_remove(struct fake_files *f, const char *path)
{
    struct place p;
    enum err e = find_place(f, path, &p);

    if (e != ERR_OK)
        return e;
    struct fake_node *what = names_get(&p.dir->names, p.name);
    if (!what)
        return ERR_NOT_FOUND;
    if (what->names.count > 0)
        return ERR_EXISTS;
    change(f, p, (struct place){0}, what);
    return ERR_OK;
}

/* A rename between two directories settles both: half a rename is never on the disk. */
static void settle(struct fake_files *f, struct fake_node *dir)
{
    names_copy(&dir->kept_names, &dir->names);
    for (struct list *link = f->changes.next; link != &f->changes;) {
        struct change *c = container_of(link, struct change, link);
        struct fake_node *other = c->from_dir == dir ? c->to_dir : c->from_dir;

        link = link->next;
        if (c->from_dir != dir && c->to_dir != dir)
            continue;
        fake_node_ref(other);
        change_free(c);
        if (other && other != dir) {
            settle(f, other);
            link = f->changes.next;
        }
        fake_node_unref(other);
    }
}

enum err fake_files_sync_dir(struct fake_files *f, const char *path)
{
    struct fake_node *dir;
    enum err e = fake_files_find(f, path, &dir);

    if (e == ERR_OK && !dir->is_dir)
        e = ERR_NOT_FOUND;
    if (e == ERR_OK)
        settle(f, dir);
    return e;
}

void fake_files_sync_opened_dir(struct fake_files *f, struct fake_node *dir)
{
    assert(dir->is_dir);

    settle(f, dir);
}

static uint64_t node_allocated(const struct fake_node *n)
{
    uint64_t bytes = n->content.allocated;

    for (size_t i = 0; i < n->names.count; i++)
        bytes += node_allocated(n->names.at[i].node);
    return bytes;
}

uint64_t fake_files_allocated(const struct fake_files *f)
{
    return node_allocated(f->root);
}

static void keep_change(const struct change *c)
{
    if (c->from_dir && names_get(&c->from_dir->kept_names, bytes_of_str(c->from)) == c->what)
        names_unset(&c->from_dir->kept_names, bytes_of_str(c->from));
    if (c->to_dir)
        names_set(&c->to_dir->kept_names, bytes_of_str(c->to), c->what);
}

static void crash_node(struct fake_node *n, struct rng *coin)
{
    assert(n);
    memset(n->locks, 0, sizeof(n->locks));
    if (!n->is_dir) {
        fake_content_crash(&n->content, coin);
        return;
    }
    names_copy(&n->names, &n->kept_names);
    for (size_t i = 0; i < n->names.count; i++)
        crash_node(n->names.at[i].node, coin);
}

void fake_files_crash(struct fake_files *f, struct rng *coin)
{
    bool keeping = coin != NULL;

    LIST_FOREACH (link, &f->changes) {
        struct change *c = container_of(link, struct change, link);

        keeping = keeping && rng_chance(coin, 3, 4);
        if (keeping)
            keep_change(c);
        change_free(c);
    }
    crash_node(f->root, coin);
}
