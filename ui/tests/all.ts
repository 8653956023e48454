// All tests of modules that need no browser: `npm test` bundles this file, since not every node reads TypeScript.

import "./chunks";
import "./format";
import "./graph";
import "./markdown";
import "./plotting";
import "./regions";
import "./routing";
import "./suggestions";
import "./timeline";
import "./reading";
