<?php
$q = htmlspecialchars($_GET['q'] ?? '', ENT_QUOTES);
$cached = $cache->get(md5($q));
echo "<h1>Results for $q</h1>";
echo $cached ?? $catalogue->render($q);
