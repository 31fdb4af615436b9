// Follows a link to sign in: once the page is shown, because a page that a browser prepares may never be.
const follow = () => document.getElementById("link").requestSubmit();
if (document.prerendering) document.addEventListener("prerenderingchange", follow, { once: true });
else follow();
