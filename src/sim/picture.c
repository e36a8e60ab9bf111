#include "sim/picture.h"

#include "io/clock.h"
#include "sim/climate.h"
#include "sim/history.h"

#include <inttypes.h>
#include <stdio.h>

/* Sizes. */
static const double WIDTH = 1600; /* of the time that is drawn */
static const double MARGIN = 90;  /* for names, on the left */
static const double TOP = 60;     /* for seconds and phases */
static const double BAR = 22;     /* height of the bar of a lane */
static const double TICKS = 10;   /* below it */
static const double ROW = 4;      /* of what does not get here, one for each that sends */
static const double GAP = 44;     /* between lanes, for the messages */

/* Drawn at most; a hundred bytes or so each. */
enum { MESSAGES_MAX = 3000, OPERATIONS_MAX = 2500, OTHERS_MAX = 1200 };

struct drawing {
    const struct picture *p;
    const struct story *s;
    struct buf *out;
    uint64_t end_ns;
    unsigned others, left_out;
};

/* --- where things are, and what they are called --- */

static double x_of(const struct drawing *d, uint64_t ns)
{
    return MARGIN + (double)ns * WIDTH / (double)d->end_ns;
}

static double lane_height(const struct drawing *d)
{
    return BAR + TICKS + ROW * (d->s->members + 1) + GAP;
}

static double y_of(const struct drawing *d, unsigned member)
{
    return TOP + (double)member * lane_height(d);
}

static double bottom_of(const struct drawing *d)
{
    return y_of(d, d->s->members);
}

/* A colour for each term; neighbours are far apart. */
static unsigned hue_of(uint64_t term)
{
    return (unsigned)(term * 137 % 360);
}

static double ms_of(uint64_t ns)
{
    return (double)ns / NS_PER_MS;
}

/* Text from outside: a problem may quote what a member said. What XML cannot say becomes a dot. */
static void add_text(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<')
            buf_append_str(out, "&lt;");
        else if (c == '>')
            buf_append_str(out, "&gt;");
        else if (c == '&')
            buf_append_str(out, "&amp;");
        else if (c == '"')
            buf_append_str(out, "&quot;");
        else
            buf_append_byte(out, c < ' ' || c > '~' ? '.' : c);
    }
}

/* Whether one more of those that have no bound of their own may be drawn. */
static bool has_credit(struct drawing *d)
{
    if (d->others < OTHERS_MAX) {
        d->others++;
        return true;
    }
    d->left_out++;
    return false;
}

/* --- frame --- */

static void draw_head(const struct drawing *d)
{
    static const char *const style =
        "body{font:14px sans-serif;margin:12px;color:#222}svg{width:100%;border:1px solid #ccc;"
        "cursor:grab}text{font:11px sans-serif;fill:#333}.m path{stroke:#456;stroke-width:.6;"
        "fill:none;opacity:.45}.m .lost{stroke:#d00;stroke-dasharray:3 2;opacity:.9}"
        "path,line{vector-effect:non-scaling-stroke}.ok{stroke:#080}.unknown{stroke:#e60}"
        ".refused{stroke:#999}.cut{fill:#d22}.clog{fill:#e90}.slow{fill:#dc5}.pause{fill:#000;"
        "opacity:.35}.sick,.disk{fill:#70c}.second{stroke:#ddd}.phase{stroke:#06c;stroke-dasharray:"
        "6 3}"
        ".broken{stroke:#c00;stroke-width:2.5}.problem{color:#c00;font-weight:bold}"
        ".problem-text{fill:#c00;font-weight:bold}.crash{fill:#c00;font-weight:bold;font-size:16px}"
        ".start{fill:#080}.key{font-size:12px;color:#555}.hit:hover{stroke-width:3;opacity:1}";

    buf_append_str(d->out, "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\"><head>"
                           "<meta charset=\"utf-8\"/><title>");
    add_text(d->out, d->p->title);
    buf_printf(d->out, "</title><style>%s</style></head>\n<body><h1>", style);
    add_text(d->out, d->p->title);
    buf_append_str(d->out, "</h1>\n");
    if (d->p->problem && *d->p->problem != '\0') {
        buf_append_str(d->out, "<p class=\"problem\">");
        add_text(d->out, d->p->problem);
        buf_append_str(d->out, "</p>\n");
    }
    buf_append_str(
        d->out,
        "<p class=\"key\">Bars: full colour leads, pale follows, white has no leader; a colour is "
        "a "
        "term. Ticks: operations, green answered, orange unknown, grey refused. Rows below: red "
        "nothing gets here from there, orange it waits, yellow it is slow. Grey over a bar: "
        "paused; violet: its disk is slow, hangs or is full. "
        "Wheel: zoom; drag: move; double click: all.</p>\n");
    double height = bottom_of(d) + 30;
    buf_printf(d->out,
               "<svg id=\"s\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
               "data-all=\"0 0 %.0f %.0f\">\n",
               WIDTH + MARGIN + 20, height, WIDTH + MARGIN + 20, height);
}

static void draw_seconds(const struct drawing *d)
{
    uint64_t seconds = d->end_ns / NS_PER_S, each = seconds / 40 + 1;

    for (uint64_t n = 0; n <= seconds; n += each) {
        double x = x_of(d, n * NS_PER_S);
        buf_printf(d->out,
                   "<line class=\"second\" x1=\"%.1f\" x2=\"%.1f\" y1=\"30\" y2=\"%.0f\"/><text "
                   "x=\"%.1f\" y=\"26\">%" PRIu64 " s</text>\n",
                   x, x, bottom_of(d), x + 2, n);
    }
    for (unsigned m = 0; m < d->s->members; m++)
        buf_printf(d->out, "<text class=\"lane\" x=\"4\" y=\"%.0f\">member %u</text>\n",
                   y_of(d, m) + 15, m);
}

/* The whole of the page's script: it changes the view box. Written so that it is XML, too. */
static void draw_tail(const struct drawing *d)
{
    static const char *const script =
        "var s=document.getElementById('s'),b=function(){return s.getAttribute('viewBox').split(' "
        "').map(Number)},set=function(v){s.setAttribute('viewBox',v.join(' '))},at=null;"
        "s.onwheel=function(e){e.preventDefault();var v=b(),r=s.getBoundingClientRect(),"
        "f=Math.sign(e.deltaY)==1?1.25:0.8,x=(e.clientX-r.left)/r.width,y=(e.clientY-r.top)/"
        "r.height;set([v[0]+v[2]*x*(1-f),v[1]+v[3]*y*(1-f),v[2]*f,v[3]*f])};"
        "s.onmousedown=function(e){at=[e.clientX,e.clientY,b()]};"
        "window.onmouseup=function(){at=null};"
        "s.onmousemove=function(e){if(!at)return;var v=at[2],r=s.getBoundingClientRect();"
        "set([v[0]-(e.clientX-at[0])*v[2]/r.width,v[1]-(e.clientY-at[1])*v[3]/"
        "r.height,v[2],v[3]])};"
        "s.ondblclick=function(){s.setAttribute('viewBox',s.dataset.all)};";

    buf_append_str(d->out, "</svg>\n");
    if (d->left_out > 0 || d->s->forgotten > 0)
        buf_printf(d->out,
                   "<p class=\"key\">%u things and %" PRIu64 " messages are not drawn: there are "
                   "too many.</p>\n",
                   d->left_out, d->s->forgotten);
    buf_printf(d->out, "<script>%s</script></body></html>\n", script);
}

/* --- what a member was, from when to when --- */

struct life {
    bool is_up;
    enum story_kind role; /* LEADS, FOLLOWS or CAMPAIGNS */
    uint64_t term, since_ns;
    unsigned leader;
};

static void draw_bar(struct drawing *d, unsigned member, const struct life *l, uint64_t until_ns)
{
    double x = x_of(d, l->since_ns), y = y_of(d, member);
    unsigned light = l->role == STORY_LEADS ? 55 : l->role == STORY_FOLLOWS ? 88 : 99;
    char who[32] = "";

    if (!l->is_up || until_ns == l->since_ns || !has_credit(d))
        return;
    if (l->role == STORY_FOLLOWS)
        snprintf(who, sizeof(who), " member %u", l->leader);
    buf_printf(
        d->out,
        "<rect class=\"%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\" "
        "fill=\"hsl(%u,70%%,%u%%)\" stroke=\"#777\" stroke-width=\".3\"><title>member %u %s%s, "
        "term %" PRIu64 ", from %.3f to %.3f ms</title></rect>\n",
        l->role == STORY_LEADS ? "leads" : "follows", x, y, x_of(d, until_ns) - x, BAR,
        hue_of(l->term), light, member, story_kind_name(l->role), who, l->term, ms_of(l->since_ns),
        ms_of(until_ns));
}

/* What it is from this event on. */
static struct life life_after(const struct life *l, const struct story_event *e)
{
    struct life next = {.is_up = true, .role = STORY_CAMPAIGNS, .since_ns = e->at_ns};

    if (e->kind == STORY_CRASHED || e->kind == STORY_STOPPED)
        next.is_up = false;
    else if (e->kind != STORY_STARTED) {
        next.is_up = l->is_up;
        next.role = (enum story_kind)e->kind;
        next.term = e->number;
        next.leader = e->to;
    }
    return next;
}

static bool changes_life(const struct story_event *e)
{
    return e->kind == STORY_STARTED || e->kind == STORY_CRASHED || e->kind == STORY_STOPPED ||
           e->kind == STORY_LEADS || e->kind == STORY_FOLLOWS || e->kind == STORY_CAMPAIGNS;
}

static void draw_lives(struct drawing *d)
{
    struct life lives[STORY_PLACES_MAX] = {0};

    for (size_t i = 0; i < d->s->count; i++) {
        const struct story_event *e = &d->s->events[i];
        if (e->from >= d->s->members || !changes_life(e))
            continue;
        draw_bar(d, e->from, &lives[e->from], e->at_ns);
        lives[e->from] = life_after(&lives[e->from], e);
    }
    for (unsigned m = 0; m < d->s->members; m++)
        draw_bar(d, m, &lives[m], d->end_ns);
}

/* What a member, or its disk, is in from when to when. A crash ends it, too. */
struct spell {
    enum story_kind begins, ends;
    const char *class, *what;
    double from, height; /* of the bar */
};

static void draw_spell(struct drawing *d, const struct spell *s, unsigned member, uint64_t from_ns,
                       uint64_t until_ns)
{
    double x = x_of(d, from_ns);

    if (from_ns == 0 || !has_credit(d))
        return;
    buf_printf(d->out,
               "<rect class=\"%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\"><title>"
               "member %u %s for %.3f ms</title></rect>\n",
               s->class, x, y_of(d, member) + s->from, x_of(d, until_ns) - x, s->height, member,
               s->what, ms_of(until_ns - from_ns));
}

static void draw_spells_of(struct drawing *d, const struct spell *s)
{
    uint64_t since_ns[STORY_PLACES_MAX] = {0};

    for (size_t i = 0; i < d->s->count; i++) {
        const struct story_event *e = &d->s->events[i];
        bool ends = e->kind == s->ends || e->kind == STORY_CRASHED;
        if (e->from >= d->s->members || (!ends && e->kind != s->begins))
            continue;
        draw_spell(d, s, e->from, since_ns[e->from], e->at_ns);
        since_ns[e->from] = ends ? 0 : e->at_ns;
    }
    for (unsigned m = 0; m < d->s->members; m++)
        draw_spell(d, s, m, since_ns[m], d->end_ns);
}

/* Over the bars. */
static void draw_spells(struct drawing *d)
{
    const struct spell spells[] = {
        {STORY_PAUSED, STORY_RESUMED, "pause", "is paused", 0, BAR},
        {STORY_DISK_SICK, STORY_DISK_WELL, "sick", "has a sick disk", BAR - 4, 4},
    };

    for (size_t i = 0; i < ARRAY_LEN(spells); i++)
        draw_spells_of(d, &spells[i]);
}

/* Over everything: what happened to it at one moment. */
static void draw_marks(struct drawing *d)
{
    static const struct {
        const char *class, *mark;
    } marks[] = {
        [STORY_STARTED] = {"start", "&#9650;"},      [STORY_CRASHED] = {"crash", "&#10007;"},
        [STORY_STOPPED] = {"crash", "&#9632;"},      [STORY_CLOCK_JUMPED] = {"clock", "&#9684;"},
        [STORY_CLOCK_DRIFTS] = {"clock", "&#9684;"}, [STORY_DISK_SICK] = {"disk", "&#9888;"},
        [STORY_DISK_SPOILED] = {"disk", "&#9888;"},
    };
    static const char *const how[] = {": killed", ": power cut", ": torn"};

    for (size_t i = 0; i < d->s->count; i++) {
        const struct story_event *e = &d->s->events[i];
        bool is_crash = e->kind == STORY_CRASHED && e->number < ARRAY_LEN(how);
        bool is_disk = e->kind == STORY_DISK_SICK || e->kind == STORY_DISK_SPOILED;
        const char *fault = is_disk ? sim_fault_name((enum sim_fault)e->number) : "";
        if (e->from >= d->s->members || e->kind >= ARRAY_LEN(marks) || !marks[e->kind].mark ||
            !has_credit(d))
            continue;
        buf_printf(d->out,
                   "<text class=\"%s\" x=\"%.2f\" y=\"%.0f\">%s<title>member %u %s%s%s%s at %.3f "
                   "ms</title></text>\n",
                   marks[e->kind].class, x_of(d, e->at_ns) - 4, y_of(d, e->from) + 17,
                   marks[e->kind].mark, e->from, story_kind_name((enum story_kind)e->kind),
                   is_crash ? how[e->number] : "", is_disk ? ": " : "", fault, ms_of(e->at_ns));
    }
}

/* --- what does not get through --- */

/* A path's state: since when, and which kind it is. All clients share the last row. */
struct path {
    uint64_t since_ns;
    enum story_kind kind;
    bool is_bad;
};

static void draw_path(struct drawing *d, unsigned from, unsigned to, const struct path *p,
                      uint64_t until_ns)
{
    const char *class = p->kind == STORY_CUT ? "cut" : p->kind == STORY_CLOGGED ? "clog" : "slow";
    unsigned row = from < d->s->members ? from : d->s->members;
    double x = x_of(d, p->since_ns);

    if (!p->is_bad || to >= d->s->members || !has_credit(d))
        return;
    buf_printf(
        d->out,
        "<rect class=\"%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\"><title>%s %u to "
        "member %u: %s for %.3f ms</title></rect>\n",
        class, x, y_of(d, to) + BAR + TICKS + row * ROW, x_of(d, until_ns) - x, ROW - 1,
        from < d->s->members ? "member" : "client", from, to, story_kind_name(p->kind),
        ms_of(until_ns - p->since_ns));
}

/* The three ways in which a path may be bad stand beside each other. */
static struct path *path_of(struct path *paths, const struct story_event *e)
{
    unsigned kind = e->kind == STORY_CUT || e->kind == STORY_MENDED          ? 0
                    : e->kind == STORY_CLOGGED || e->kind == STORY_UNCLOGGED ? 1
                                                                             : 2;

    return &paths[(kind * STORY_PLACES_MAX + e->from) * STORY_PLACES_MAX + e->to];
}

static void draw_paths(struct drawing *d)
{
    struct path *paths = mem_new_array(3 * STORY_PLACES_MAX * STORY_PLACES_MAX, struct path);

    for (size_t i = 0; i < d->s->count; i++) {
        const struct story_event *e = &d->s->events[i];
        if (e->kind < STORY_CUT || e->kind > STORY_SLOWED)
            continue;
        struct path *p = path_of(paths, e);
        bool begins = e->kind == STORY_CUT || e->kind == STORY_CLOGGED ||
                      (e->kind == STORY_SLOWED && e->number > 0);
        if (begins && p->is_bad)
            continue;
        draw_path(d, e->from, e->to, p, e->at_ns);
        *p =
            (struct path){.since_ns = e->at_ns, .kind = (enum story_kind)e->kind, .is_bad = begins};
    }
    for (unsigned kind = 0; kind < 3; kind++)
        for (unsigned from = 0; from < STORY_PLACES_MAX; from++)
            for (unsigned to = 0; to < STORY_PLACES_MAX; to++)
                draw_path(d, from, to,
                          &paths[(kind * STORY_PLACES_MAX + from) * STORY_PLACES_MAX + to],
                          d->end_ns);
    mem_free(paths);
}

/* --- messages and operations --- */

/* Of `count` things `max` are drawn: of those in the first half of a page's worth some, evenly, of
 * the newest all. Is the nth one of them? */
static bool is_drawn(size_t n, size_t count, size_t max)
{
    size_t newest = max / 2;

    if (count <= max || n + newest >= count)
        return true;
    size_t older = count - newest, every = older / (max - newest) + 1;
    return n % every == 0;
}

static bool is_between_members(const struct drawing *d, const struct story_event *e)
{
    return (e->kind == STORY_SENT || e->kind == STORY_LOST) && e->from < d->s->members &&
           e->to < d->s->members && e->from != e->to;
}

static void draw_message(struct drawing *d, const struct story_event *e)
{
    double from = y_of(d, e->from) + BAR / 2, to = y_of(d, e->to) + BAR / 2;

    buf_printf(d->out,
               "<path class=\"%s\" d=\"M%.2f %.0fL%.2f %.0f\"><title>%u to %u: %" PRIu64
               " bytes, %.3f ms</title></path>\n",
               e->kind == STORY_LOST ? "hit lost" : "hit", x_of(d, e->at_ns), from,
               x_of(d, e->until_ns), to, e->from, e->to, e->number, ms_of(e->until_ns - e->at_ns));
}

static void draw_messages(struct drawing *d)
{
    size_t count = 0, n = 0;

    for (size_t i = 0; i < d->s->count; i++)
        count += is_between_members(d, &d->s->events[i]);
    buf_append_str(d->out, "<g class=\"m\">\n");
    for (size_t i = 0; i < d->s->count; i++) {
        if (!is_between_members(d, &d->s->events[i]))
            continue;
        if (is_drawn(n++, count, MESSAGES_MAX))
            draw_message(d, &d->s->events[i]);
        else
            d->left_out++;
    }
    buf_append_str(d->out, "</g>\n");
}

static void draw_operation(struct drawing *d, uint64_t n, const struct history_op *o)
{
    const char *class = !o->failed ? "ok" : o->refused ? "refused" : "unknown";
    double x = x_of(d, o->over_ns), y = y_of(d, o->member) + BAR;

    buf_printf(
        d->out,
        "<line class=\"hit %s\" x1=\"%.2f\" x2=\"%.2f\" y1=\"%.0f\" y2=\"%.0f\"><title>%" PRIu64
        " %s, revision %" PRId64 ", from %.3f to %.3f ms</title></line>\n",
        class, x, x, y + 1, y + TICKS - 1, n, history_kind_name(o->kind), o->revision,
        ms_of(o->began_ns), ms_of(o->over_ns));
}

static void draw_operations(struct drawing *d)
{
    const struct history *h = d->p->history;

    for (size_t n = 0; h && n < h->op_count; n++) {
        const struct history_op *o = &h->ops[n];
        if (!o->done || o->member >= d->s->members)
            continue;
        if (is_drawn(n, h->op_count, OPERATIONS_MAX))
            draw_operation(d, n, o);
        else
            d->left_out++;
    }
}

/* --- the whole world --- */

static void draw_texts(const struct drawing *d)
{
    for (size_t i = 0; i < d->s->count; i++) {
        const struct story_event *e = &d->s->events[i];
        bool is_broken = e->kind == STORY_BROKEN;
        if (!is_broken && e->kind != STORY_PHASE)
            continue;
        double x = x_of(d, e->at_ns);
        buf_printf(d->out,
                   "<line class=\"%s\" x1=\"%.2f\" x2=\"%.2f\" y1=\"0\" y2=\"%.0f\"/><text "
                   "class=\"%s\" text-anchor=\"%s\" x=\"%.2f\" y=\"%.0f\">",
                   is_broken ? "broken" : "phase", x, x, bottom_of(d) + 10,
                   is_broken ? "problem-text" : "phase-text", is_broken ? "end" : "start",
                   is_broken ? x - 4 : x + 3, is_broken ? bottom_of(d) + 20 : 12.0);
        add_text(d->out, story_text(d->s, e));
        buf_append_str(d->out, "</text>\n");
    }
}

/* Some time after the last thing that happened, so that it can be seen. */
static uint64_t end_of(const struct picture *p)
{
    uint64_t end_ns = NS_PER_MS;

    if (p->story->count > 0)
        end_ns += p->story->events[p->story->count - 1].until_ns;
    for (size_t n = 0; p->history && n < p->history->op_count; n++)
        if (p->history->ops[n].over_ns > end_ns)
            end_ns = p->history->ops[n].over_ns;
    return end_ns + end_ns / 100;
}

void picture_draw(const struct picture *p, struct buf *out)
{
    struct drawing d = {.p = p, .s = p->story, .out = out, .end_ns = end_of(p)};
    size_t before = out->len;

    assert(p->story->members <= STORY_PLACES_MAX);
    draw_head(&d);
    draw_seconds(&d);
    draw_messages(&d);
    draw_lives(&d);
    draw_spells(&d);
    draw_paths(&d);
    draw_operations(&d);
    draw_marks(&d);
    draw_texts(&d);
    draw_tail(&d);
    assert(out->len - before < PICTURE_BYTES_MAX);
}

bool picture_write(const struct picture *p, const char *path)
{
    struct buf page = {0};
    FILE *file = fopen(path, "wb");

    if (!file)
        return false;
    picture_draw(p, &page);
    bool ok = fwrite(page.at, 1, page.len, file) == page.len;
    ok = fclose(file) == 0 && ok;
    buf_free(&page);
    return ok;
}
